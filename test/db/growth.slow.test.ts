import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseConfig } from '#dist/config/config.js';
import { createDatabase } from '#dist/db/database.js';
import { createStatements, type Queryable } from '#dist/db/statements.js';
import { SCANNED } from '#dist/domain/bounds.js';
import type { CountedFilter } from '#dist/domain/filters.js';
import type { Identity, UserRecord } from '#dist/domain/identities.js';
import { ofKeptTexts } from '#dist/domain/kept-texts.js';
import { EARLIEST, LATEST } from '#dist/domain/parse.js';
import type { Actor } from '#dist/domain/projects.js';
import { ofStateFilters, STATE_FILTER_NAMES, type StateFilter } from '#dist/domain/state-filters.js';
import * as changes from '#dist/feed/changes.sql.js';
import * as webhooks from '#dist/feed/webhooks.sql.js';
import * as audit from '#dist/projects/audit.sql.js';
import * as keys from '#dist/projects/idempotency.sql.js';
import * as operators from '#dist/projects/operators.sql.js';
import * as passkeys from '#dist/projects/passkeys.sql.js';
import * as projects from '#dist/projects/projects.sql.js';
import * as secrets from '#dist/projects/secrets.sql.js';
import * as bans from '#dist/users/bans.sql.js';
import * as tallies from '#dist/users/check-tallies.sql.js';
import * as described from '#dist/users/describe-users.sql.js';
import * as findUsers from '#dist/users/find-users.sql.js';
import * as identities from '#dist/users/identities.sql.js';
import * as links from '#dist/users/import-links.sql.js';
import * as imports from '#dist/users/imports.sql.js';
import * as lists from '#dist/users/list-users.sql.js';
import * as logins from '#dist/users/logins.sql.js';
import * as newUsers from '#dist/users/new-users.sql.js';
import * as signUps from '#dist/users/sign-ups.sql.js';
import * as totals from '#dist/users/totals.sql.js';
import * as transfers from '#dist/users/transfers.sql.js';
import * as accounts from '#dist/users/user-columns.sql.js';
import * as owners from '#dist/users/wallets.sql.js';
import * as writes from '#dist/users/write-users.sql.js';
import { copyTemplate } from '../support/engines.js';
import { appIdOf, CROWDED_DAY, fillTables, SHARED, stayUnanalyzed } from '../support/many-rows.js';

/**
 * Every statement of the service, on tables with many rows: what it reads grows with what it answers, and never with a table, with
 * statistics and without. It does not hold for plans that a session made while the tables were empty: PostgreSQL makes them anew once
 * autovacuum has analyzed a table that grew.
 */
const ROWS = 100_000;
const PROJECTS = 20_000;

/** What one call may read beside its answer: rows of tables and entries of indexes, and pages of both. */
const ROWS_A_CALL = 150;
const PAGES_A_CALL = 400;
/** What it may read for each row of the answer; a user comes with accounts. */
const ROWS_A_ROW = 6;
const PAGES_A_ROW = 25;

/** A project with nearly all rows, and one of the many that have one row of each kind. */
interface Where {
  readonly projectId: number;
  readonly appId: string;
  /** A user of the project, in the middle, and the n of its texts. */
  readonly id: number;
  readonly n: number;
}
const LARGE: Where = { projectId: 1, appId: appIdOf(1), id: ROWS / 2, n: ROWS / 2 };
const SMALL: Where = { projectId: 777, appId: appIdOf(777), id: 2 * ROWS + 776, n: 1 };

const TERMS = { reason: 'spam', expiresAt: null };

type Run = (db: Queryable, at: Where) => Promise<unknown>;
interface Case {
  readonly run: Run;
  /** How many rows the call is about, where it does not return them. */
  readonly about: number;
  /** How many pages it may read, where a row is far less than a page. */
  readonly pages?: number;
}
/** A call that is about more rows than it returns. */
const about = (rows: number, run: Run, pages?: number): Case => ({ run, about: rows, ...(pages && { pages }) });

const hash = (text: string) => createHash('sha256').update(text).digest();
const actor = ({ projectId }: Where): Actor => ({ projectId, actor: 'main', requestId: null });
const logActor = { actor: 'operator', requestId: null };
const identity = ({ n }: Where): Identity => ({ authMethod: 'google', authValue: `u${n}`, authValueKey: `u${n}` });
const LINKED = {
  authMethod: 'github',
  authValue: 'free',
  authValueKey: 'free',
  loginMethod: 'socials' as const,
  loginEmail: null,
  emailVerified: null,
  createdAt: '2026-01-31T12:00:00.000Z',
  lastLogin: null,
} as const;
const ALL: CountedFilter = { createdFrom: EARLIEST, createdTo: LATEST, loginMethods: null };
const email = ({ projectId, n }: Where) => (projectId === 1 ? `u${n}@example.com` : 'u1@example.com');
const LATE: CountedFilter = {
  ...ALL,
  createdFrom: new Date(`${CROWDED_DAY}T02:00:00Z`),
  createdTo: new Date(`${CROWDED_DAY}T08:09:10Z`),
};
const filters: readonly CountedFilter[] = [
  ALL,
  { ...ALL, loginMethods: ['email'] },
  { ...ALL, createdFrom: new Date('2024-03-05T05:00:00Z'), createdTo: new Date('2024-06-07T08:09:10Z') },
  LATE,
  { ...LATE, loginMethods: ['email', 'wallet'] },
];
const ATTEMPT = {
  at: '2026-01-31T12:00:00.000Z',
  id: 'x',
  type: 'user.created',
  ok: true,
  status: 204,
  ms: 5,
  error: null,
  resent: false,
};
const POSITION = { createdAt: new Date('2025-03-01T00:00:00Z'), id: ROWS / 2 };

/** One call after the other, as the rows of all. */
async function each<Item>(items: readonly Item[], run: (item: Item) => Promise<unknown>): Promise<unknown[]> {
  const all: unknown[] = [];
  for (const item of items) {
    const answer = await run(item);
    if (Array.isArray(answer)) all.push(...answer);
    else all.push(answer);
  }
  return all;
}

/** Records of users, of which every other one exists, with an account that is new. */
function userRecords(at: Where, count: number): UserRecord[] {
  return Array.from({ length: count }, (_, index) => {
    const n = at.n === 1 ? 1 : 4 * index + 4;
    const exists = at.n === 1 ? index === 0 : index % 2 === 0;
    const mark = exists ? `u${n}` : `new ${index}`;
    return {
      authMethod: 'google',
      authValue: mark,
      authValueKey: mark,
      identityEmail: null,
      saidEmail: null,
      wallet: null,
      emailVerified: null,
      metadata: null,
      ...ofKeptTexts(() => null),
      externalId: exists ? `x${n}` : mark,
      createdAt: null,
      lastLogin: null,
      loginCount: null,
      accounts: [{ network: 'ethereum', publicKey: 'new', addressKey: `new-${index}`, walletType: 'external' }],
    };
  });
}

/** Identities that lines link to users, of whom every other one exists; every third identity is one that somebody has linked. */
const linksOf = (at: Where): links.Link[] =>
  userRecords(at, 30).map((user, line) => {
    const value = line % 3 === 0 ? `u${at.n === 1 ? 1 : line + 5}` : `free ${line}`;
    const identity = { authMethod: 'linked', authValue: value, authValueKey: value, loginEmail: null };
    return { line, user, identity: { ...identity, emailVerified: null, createdAt: null, lastLogin: null } };
  });

/** A statement of an import, which sets its transaction up. */
const importing =
  (run: (db: Queryable, at: Where, rows: transfers.ImportRows) => Promise<unknown>): Run =>
  async (db, at) => {
    await transfers.tryToImportAlone(db, at.projectId);
    return run(db, at, transfers.toImportRows(userRecords(at, 30)));
  };

/** Every exported statement, by the module that has it. */
const STATEMENTS: Record<string, Record<string, Run | Case>> = {
  audit: {
    findAuditEntryBefore: about(20, (db, { projectId }) => audit.findAuditEntryBefore(db, projectId, null, 20)),
    listAuditEntries: (db, { projectId }) =>
      each([null, POSITION], (after) => audit.listAuditEntries(db, projectId, after, 20)),
    listAuditPage: (db, at) => {
      const anyEntry = { actor: null, action: null, userId: null, since: null, until: null };
      const conditions = [
        anyEntry,
        { ...anyEntry, actor: 'rare' },
        { ...anyEntry, action: 'remove' as const },
        { ...anyEntry, userId: BigInt(at.id) },
        { ...anyEntry, since: new Date('2025-01-01T05:00:00Z'), until: new Date('2025-01-01T06:00:00Z') },
      ];
      return each(conditions, (filter) =>
        each([null, POSITION], (after) => audit.listAuditPage(db, at.projectId, filter, after, 20)),
      );
    },
    recordAction: (db, at) => audit.recordAction(db, actor(at), 'export', {}),
    recordProgress: about(10, (db, at) =>
      each([null, 1] as const, (id) => audit.recordProgress(db, actor(at), 'import', id, {})),
    ),
  },
  bans: {
    // One step for each project that has bans which end.
    listProjectsWithEndedBans: about(100, (db) => bans.listProjectsWithEndedBans(db)),
    deleteBan: (db, at) => bans.deleteBan(db, actor(at), identity(at)),
    insertUserBan: (db, at) => bans.insertUserBan(db, actor(at), BigInt(at.id), TERMS),
    deleteUserBan: (db, at) => bans.deleteUserBan(db, actor(at), BigInt(at.id)),
    deleteEndedBans: (db, { projectId }) => bans.deleteEndedBans(db, projectId, 20),
    exportBans: (db, { projectId }) =>
      each([null, { authMethod: 'github', authValueKey: 'u5' }], (after) =>
        bans.exportBans(db, projectId, after, 50).then((page) => page.bans),
      ),
    findBanWindows: (db, at) =>
      bans.findBanWindows(
        db,
        [at, SMALL].map(({ projectId }) => ({ projectId, after: POSITION, limit: 20 })),
      ),
    findBans: (db, at) => bans.findBans(db, at.projectId, identity(at)),
    findBanned: (db, at) =>
      bans.findBanned(
        db,
        [at, SMALL].map(({ projectId, id }) => ({ projectId, userId: id })),
      ),
    // Each of 20 lines writes a ban and a change.
    importBans: about(34, (db, { projectId }) =>
      bans.importBans(
        db,
        projectId,
        Array.from({ length: 20 }, (_, n) => ({
          ...identity({ ...LARGE, n: 1000 + n }),
          createdAt: null,
          isOfUser: n % 2 === 0,
          ...TERMS,
        })),
      ),
    ),
    insertBan: (db, at) => bans.insertBan(db, actor(at), identity({ ...at, n: 4 }), TERMS),
    listBanPage: (db, { projectId }) =>
      each(['newest first', 'oldest first'] as const, (order) =>
        bans.listBanPage(db, projectId, { after: POSITION, limit: 20, order, contains: null }),
      ),
  },
  changes: {
    endSilentLeader: (db) => changes.endSilentLeader(db, 1e6),
    findChanges: (db, { projectId, id }) => changes.findChanges(db, projectId, [id, id + 1]),
    findChangedProjects: about(100, (db) =>
      changes.findChangedProjects(
        db,
        Array.from({ length: 100 }, (_, n) => n + 1),
        ROWS - 10,
        ROWS,
      ),
    ),
    findLeader: (db) => changes.findLeader(db),
    findRestore: (db) => changes.findRestore(db),
    // Of a database that was restored, all that an operator looks through.
    findRevived: about(PROJECTS + 3 * ROWS, (db) => changes.findRevived(db)),
    findOldestWriter: (db) => changes.findOldestWriter(db),
    findWriters: (db) => changes.findWriters(db),
    haveEnded: (db) => changes.haveEnded(db, '3'),
    listProjectsWithOldChanges: about(PROJECTS, (db) => changes.listProjectsWithOldChanges(db, 30 * 86_400_000)),
    nameLeader: (db) => changes.nameLeader(db),
    recogniseDatabase: (db) => changes.recogniseDatabase(db, '', 'look'),
    pruneChanges: about(100, (db, { projectId }) => changes.pruneChanges(db, projectId, 30 * 86_400_000, 100)),
    publishChanges: (db) => changes.publishChanges(db, ROWS),
    publishSettled: (db) => changes.publishSettled(db, 0),
    readChanges: about(200, (db, { projectId }) =>
      each([null, ['account.added']] as const, (types) =>
        changes.readChanges(db, [{ projectId, after: ROWS / 2, types, limit: 50, scan: types === null ? 50 : 200 }]),
      ),
    ),
    readFeed: (db) => changes.readFeed(db),
    tryToLead: (db) => changes.tryToLead(db),
  },
  'export-users': {
    exportUsers: (db, at) =>
      each(
        filters.slice(0, 2),
        async (filter) => (await transfers.exportUsers(db, at.projectId, filter, ROWS / 2, 50)).users,
      ),
  },
  'find-users': {
    findUsersById: (db, at) =>
      each([[at], [at, LARGE, SMALL]], (users) =>
        findUsers.findUsersById(
          db,
          users.map(({ projectId, id }) => ({ projectId, id: BigInt(id), withAccounts: true })),
        ),
      ),
    findUsersByIdentity: (db, at) =>
      each([[at], [at, LARGE, SMALL]], (users) =>
        findUsers.findUsersByIdentity(
          db,
          users.map((each) => ({ projectId: each.projectId, ...identity(each), withAccounts: true })),
        ),
      ),
    findUsersByExternalId: (db, at) =>
      each([[at], [at, LARGE, SMALL]], (users) =>
        findUsers.findUsersByExternalId(
          db,
          users.map(({ projectId, n }) => ({ projectId, externalId: `x${n}`, withAccounts: true })),
        ),
      ),
    findFewUsers: (db, at) => {
      const searches = [
        ['email', email(at)],
        ['email', SHARED.email],
        ['address', `a${at.id}`],
        ['address', SHARED.address],
      ] as const;
      return each(searches, ([by, value]) =>
        each([1, 2], (count) =>
          findUsers.findFewUsers(by, 20)(db, Array(count).fill({ projectId: at.projectId, value, withAccounts: true })),
        ),
      );
    },
    // It reads one more than `limit` rows of each login method and column, and their users.
    findUsersByPrefix: about(220, (db, at) =>
      each(['u', 'u1', `u${at.n}`, SHARED.email, 'x', 'nobody'], (prefix) =>
        each([1, 2], (count) =>
          findUsers.findUsersByPrefix(
            db,
            Array(count).fill({ projectId: at.projectId, exact: prefix, folded: prefix, limit: 5, withAccounts: true }),
          ),
        ),
      ),
    ),
    measureByEmail: (db, { projectId }) =>
      findUsers.measureByEmail(db, { projectId, value: SHARED.email, withAccounts: true }, 50),
    measureByAddress: (db, { projectId }) =>
      findUsers.measureByAddress(db, { projectId, value: SHARED.address, withAccounts: true }, 0, 50),
  },
  'find-wallet-owner': {
    findWalletOwners: about(80, (db, at) => ownersOf(at, (wanted) => owners.findWalletOwners(db, wanted))),
    findOwnersOfBatch: about(80, (db, at) => ownersOf(at, (wanted) => owners.findOwnersOfBatch(db, wanted))),
  },
  'idempotency-keys': {
    findEarlier: (db, at) => keys.findEarlier(db, at.projectId, { key: 'key 5', requestHash: '00' }),
    storeKey: (db, at) => keys.storeKey(db, at.projectId, { key: 'of an act', requestHash: '00' }, null),
    deleteExpiredKeys: about(50, (db, { projectId }) => keys.deleteExpiredKeys(db, projectId, 50)),
    listProjectsWithExpiredKeys: about(PROJECTS, (db) => keys.listProjectsWithExpiredKeys(db)),
  },
  identities: {
    addAccounts: (db, at) =>
      identities.addAccounts(db, at.projectId, BigInt(at.id), userRecords(at, 1)[0]?.accounts ?? []),
    deleteAccount: (db, at) => identities.deleteAccount(db, at.projectId, BigInt(at.id), `a${at.id}`),
    deleteIdentity: (db, at) => identities.deleteIdentity(db, at.projectId, at.id),
    findIdentities: (db, at) =>
      each([[at], [at, LARGE, SMALL]], (users) =>
        identities.findIdentities(
          db,
          users.map(({ projectId, id }) => ({ projectId, userId: id })),
        ),
      ),
    insertIdentity: (db, at) => identities.insertIdentity(db, at.projectId, BigInt(at.id), LINKED),
    lockUsers: (db, at) =>
      each(['current', 'not merged', 'any'] as const, (which) =>
        identities.lockUsers(db, at.projectId, [BigInt(at.id), BigInt(at.id + 1)], which),
      ),
    // The ban of the user moves with four identities and accounts, and each leaves a change.
    mergeUsers: about(12, (db, at) =>
      identities.mergeUsers(
        db,
        at.projectId,
        { id: BigInt(at.id), primary: { ...LINKED, id: null } },
        BigInt(at.projectId === 1 ? at.id + 1 : at.id),
      ),
    ),
    setEmail: (db, at) =>
      each([null, at.id], (id) => identities.setEmail(db, at.projectId, BigInt(at.id), { ...LINKED, id })),
    setPrimary: (db, at) => identities.setPrimary(db, at.projectId, BigInt(at.id), LINKED),
  },
  'import-users': {
    addOrUpdateUsers: about(
      150,
      importing((db, at, rows) =>
        each(['update', 'replace'] as const, (how) =>
          transfers.addOrUpdateUsers(db, at.projectId, rows, new Array(30).fill(0), how),
        ),
      ),
    ),
    addUsers: about(
      150,
      importing((db, at, rows) => transfers.addUsers(db, at.projectId, rows)),
    ),
    findDifferences: about(
      150,
      importing((db, at, rows) =>
        each(['update', 'replace'] as const, (how) => transfers.findDifferences(db, at.projectId, rows, how)),
      ),
    ),
    findHolders: about(30, (db, at) => links.findHolders(db, at.projectId, userRecords(at, 30))),
    findLinkStates: about(150, async (db, at) => {
      await transfers.tryToImportAlone(db, at.projectId);
      return links.findLinkStates(db, at.projectId, linksOf(at));
    }),
    linkIdentities: about(150, async (db, at) => {
      await transfers.tryToImportAlone(db, at.projectId);
      return links.linkIdentities(
        db,
        at.projectId,
        linksOf(at).filter((_, index) => index % 3 > 0),
      );
    }),
    findTaken: about(150, (db, at) => transfers.findTaken(db, at.projectId, userRecords(at, 30))),
    findOverfull: about(40, (db, at) =>
      transfers.findOverfull(db, at.projectId, userRecords(at, 40), { most: 0, locks: true }),
    ),
    tryToImportAlone: (db, { projectId }) => transfers.tryToImportAlone(db, projectId),
  },
  imports: {
    hasImport: (db, at) => imports.hasImport(db, at.projectId, 1),
    keepCreated: (db, at) => imports.keepCreated(db, at.projectId, 1, [at.id, at.id + 1]),
    undoPart: about(10, async (db, at) => {
      await imports.keepCreated(db, at.projectId, 1, [at.id]);
      return imports.undoPart(db, actor(at), 1);
    }),
    findUserIds: about(30, (db, at) => imports.findUserIds(db, at.projectId, userRecords(at, 30))),
  },
  'linked-accounts': {
    findAccountsByUser: (db, at) =>
      each([[at], [at, SMALL]], (users) =>
        accounts.findAccountsByUser(
          db,
          users.map(({ projectId, id }) => ({ projectId, userId: id })),
        ),
      ),
  },
  'list-users': {
    countUsers: about(
      2_500,
      (db, { projectId }) => each(filters, (filter) => lists.countUsers(db, [{ projectId, filter }])),
      1_000,
    ),
    listUserPages: about(8_000, (db, { projectId }) =>
      each(filters, (filter) =>
        each([1, 3, 500], (page) =>
          lists.listUserPages(db, [{ projectId, filter, page, limit: 20, withAccounts: true }]),
        ),
      ),
    ),
    listUserWindows: about(4_000, (db, { projectId }) =>
      each(filters, (filter) =>
        each([null, POSITION], (after) =>
          each(['newest', 'oldest'] as const, (from) =>
            lists.listUserWindows(db, [
              {
                projectId,
                filter,
                after,
                before: null,
                from,
                limit: 20,
                withAccounts: true,
                withTotal: from === 'newest',
                withNewer: true,
                withOlder: true,
              },
            ]),
          ),
        ),
      ),
    ),
  },
  'look-up-users': {
    describeUser: (db, at) => described.describeUser(db, at.projectId, BigInt(at.id)),
    describeUsers: (db, at) => described.describeUsers(db, at.projectId, [BigInt(at.id), BigInt(ROWS + 5)]),
    findIdsByValue: (db, at) => findUsers.findIdsByValue(db, at.projectId, `u${at.n}`),
    listRemovedIds: (db, { projectId }) =>
      each([null, { createdAt: new Date('2025-01-01T12:00:00Z'), id: ROWS + 5 }], (after) =>
        each(['newest first', 'oldest first'] as const, (order) =>
          described.listRemovedIds(db, projectId, { after, limit: 20, order }),
        ),
      ),
    findRemovedIds: about(3 * ROWS, (db, at) =>
      each(
        [
          { identity: identity(at) },
          { value: `u${at.n}` },
          { email: email(at) },
          { addressKey: `a${ROWS + 5}` },
          { externalId: `x${at.n}` },
        ],
        (mark) => described.findRemovedIds(db, at.projectId, mark, 20),
      ),
    ),
  },
  operators: {
    findOperator: (db) => operators.findOperator(db, 7),
    findOwners: (db) =>
      each([[500], [500, 501]], (numbers) =>
        operators.findOwners(
          db,
          numbers.map((number) => hash(`session ${number}`).toString('hex')),
        ),
      ),
    insertLink: (db) => operators.insertLink(db, logActor, 'operator7', hash('new link')),
    insertSession: (db) =>
      each([{ linkHash: hash('link 500') }, { name: 'operator7' }, { passkeyId: 500, counter: 6 }], (logIn) =>
        operators.insertSession(db, logIn, {
          tokenHash: hash(JSON.stringify(logIn)),
          userAgent: 'test',
          requestId: null,
        }),
      ),
    listSessions: about(2 * PROJECTS, (db) => each([null, 'operator7'], (name) => operators.listSessions(db, name))),
    useSession: (db) => operators.useSession(db, hash('session 500')),
  },
  passkeys: {
    lockOperator: (db) => passkeys.lockOperator(db, 7),
    mayAdd: (db) => passkeys.mayAdd(db, 501),
    useChallenge: (db) => each(['new', 'challenge 501'], (text) => passkeys.useChallenge(db, hash(text))),
  },
  'project-lifecycle': {
    // Called when the tables with many rows have none of the project.
    deleteProject: about(100, (db) => projects.deleteProject(db, actor(SMALL))),
    deleteRows: about(250, (db, at) =>
      each(projects.LARGE_TABLES, (table) => projects.deleteRows(db, at.projectId, table, 50)),
    ),
  },
  projects: {
    countProjects: about(PROJECTS, (db) => projects.countProjects(db)),
    findProjectId: (db, { appId }) => projects.findProjectId(db, appId),
    findProjects: (db, { appId }) => projects.findProjects(db, [appId, appIdOf(5), appIdOf(6)]),
    lockProject: (db, { projectId }) => projects.lockProject(db, projectId),
    listProjectPage: about(3 * PROJECTS, (db) =>
      each(
        [
          { among: null, search: null },
          { among: null, search: 'project 55' },
          { among: [5, 6], search: null },
          { among: null, search: null, oldestFirst: true },
        ],
        (page) => projects.listProjectPage(db, { ...page, after: null, limit: 20 }),
      ),
    ),
    // The pending deltas are those of the first project.
    sampleProjects: about(PROJECTS, (db) => projects.sampleProjects(db, 20)),
  },
  logins: {
    recordLinkedLogins: about(20, (db, at) => {
      const login = (n: number): logins.Login => {
        const value = at.projectId === 1 ? `u${n}` : 'u1';
        const profile = { ...userRecords(at, 1)[0], authMethod: 'linked', authValue: value, authValueKey: value };
        return {
          projectId: at.projectId,
          profile: { ...profile, externalId: null } as logins.Login['profile'],
          retry: null,
        };
      };
      return each([[5], [5, 6, 7, 8]], (numbers) => logins.recordLinkedLogins(db, numbers.map(login), at === SMALL));
    }),
    findRegistered: (db, { projectId, id }) => logins.findRegistered(db, projectId, id),
    recordLogins: about(80, (db, at) => {
      const all = userRecords({ ...at, n: LARGE.n }, 20).map((profile, index) => {
        const retry = index > 4 ? null : { key: index === 4 ? 'key 5' : `key of ${index}`, requestHash: '00' };
        return { projectId: at.projectId, profile, retry };
      });
      const plain = all.map(({ projectId, profile }) => {
        return { projectId, profile: { ...profile, externalId: null, accounts: [] }, retry: null };
      });
      const batches = [all, plain, ...all.slice(0, 6).map((one) => [one])];
      return each(batches, (some) => logins.recordLogins(db, some, at === SMALL));
    }),
  },
  'new-users': {
    insertUsers: about(80, (db, at) => {
      // One in two has what another user has.
      const all = userRecords({ ...at, n: LARGE.n }, 20).map((profile, index) => {
        const retry = index > 4 ? null : { key: index === 4 ? 'key 5' : `key of ${index}`, requestHash: '00' };
        return { projectId: at.projectId, profile, retry };
      });
      return each([all, ...all.slice(0, 6).map((one) => [one])], (some) =>
        newUsers.insertUsers(db, some, at === SMALL),
      );
    }),
  },
  'remove-users': {
    countRemoved: about(ROWS, (db, { projectId }) => writes.countRemoved(db, projectId, 0)),
    purgeRemoved: about(100, (db, at) => writes.purgeRemoved(db, actor(at), 0, 50)),
    removeUsers: about(20, (db, at) => {
      const ofUser = (id: number, key: string | null) => ({
        projectId: at.projectId,
        actor: actor(at),
        id: BigInt(id),
        retry: key === null ? null : { key, requestHash: '00' },
      });
      const some = [ofUser(at.id, null), ofUser(at.id + 1, 'key 5'), ofUser(at.id + 2, 'another')];
      return each([some, ...some.map((one) => [one])], (removals) => writes.removeUsers(db, removals, at === SMALL));
    }),
    updateUser: (db, at) =>
      writes.updateUser(
        db,
        {
          projectId: at.projectId,
          actor: actor(at),
          id: BigInt(at.id),
          retry: { key: 'update', requestHash: 'aa' },
          changes: { externalId: 'free' },
        },
        at === SMALL,
      ),
    lockMetadata: (db, at) => writes.lockMetadata(db, at.projectId, BigInt(at.id)),
    restoreUser: (db, at) => each([BigInt(ROWS + 5), BigInt(at.id)], (id) => writes.restoreUser(db, actor(at), id)),
  },
  'scan-users': {
    scanUserWindows: about(8 * STATE_FILTER_NAMES.length * SCANNED, (db, { projectId }) => {
      const none = ofStateFilters(STATE_FILTER_NAMES, {
        boolean: () => null,
        instant: () => null,
        methods: () => null,
        text: () => null,
      });
      // Each filter alone, so that no other one makes its condition cheap.
      const wanted = ofStateFilters(STATE_FILTER_NAMES, {
        boolean: () => true,
        instant: () => new Date(0),
        methods: () => ['nobody'],
        text: () => 'no body',
      });
      const states = STATE_FILTER_NAMES.map((name): StateFilter => ({ ...none, [name]: wanted[name] }));
      return each(filters.slice(0, 2), (filter) =>
        each(states, (state) =>
          each([null, POSITION], (after) =>
            lists.scanUserWindows(db, [
              {
                projectId,
                filter,
                state,
                after,
                before: null,
                from: 'newest',
                limit: 20,
                withAccounts: true,
              },
            ]),
          ),
        ),
      );
    }),
  },
  secrets: {
    endSecret: (db, at) => secrets.endSecret(db, actor(at), at.projectId),
    findSecrets: (db, { appId }) => each([[appId], [appId, appIdOf(5)]], (appIds) => secrets.findSecrets(db, appIds)),
    insertSecret: (db, at) =>
      secrets.insertSecret(db, actor(at), {
        secretHash: hash('new'),
        label: 'new',
        scopes: ['read'],
        expiresInMs: null,
      }),
    listSecrets: (db, { projectId }) => secrets.listSecrets(db, projectId),
    markSecretUsed: (db, { projectId }) => secrets.markSecretUsed(db, projectId, projectId),
    replaceSecret: (db, at) =>
      secrets.replaceSecret(db, actor(at), {
        secretHash: hash('other'),
        label: 'main',
        overlapMs: 0,
      }),
  },
  'totals/check-tallies': {
    // Counts all users of the project; the tallies by day, and users slice by slice.
    compareTallies: about(ROWS, (db, { projectId }) => tallies.compareTallies(db, projectId), 35_000),
    repairTallies: about(ROWS, (db, { projectId }) => tallies.repairTallies(db, projectId)),
  },
  'totals/sign-ups': {
    countByMethod: about(500, (db, { projectId }) => signUps.countByMethod(db, [{ projectId }])),
    countSignUps: about(1_000, (db, { projectId }) =>
      signUps.countSignUps(db, [{ projectId, from: new Date('2024-01-01'), to: new Date('2024-04-01'), by: 'day' }]),
    ),
  },
  'totals/totals': {
    cutCrowdedDays: about(2_000, (db, { projectId }) => totals.cutCrowdedDays(db, projectId)),
    foldTallies: about(1_000, (db, { projectId }) => totals.foldTallies(db, projectId)),
  },
  webhooks: {
    claimWebhooks: about(PROJECTS / 2, (db) =>
      webhooks.claimWebhooks(db, {
        lease: 'x',
        leaseMs: 10_000,
        held: new Map(),
        maxPerProject: 4,
        max: 256,
        maxFailing: 64,
      }),
    ),
    claimResend: (db, { projectId }) => webhooks.claimResend(db, projectId, projectId, 1_000),
    // It counts up to BACKLOG_COUNTED.
    countBacklog: about(200, (db, { projectId }) => webhooks.countBacklog(db, projectId, projectId)),
    endResend: (db, { projectId }) => webhooks.endResend(db, projectId, projectId, ATTEMPT),
    endTurn: (db, at) =>
      webhooks.endTurn(db, { projectId: at.projectId, id: at.projectId, moves: 0, edits: 0 }, 'x', {
        place: 5,
        timeline: 'first',
        failures: 0,
        delayMs: 0,
        status: 'enabled',
        reason: null,
        attempts: [ATTEMPT],
        accepted: 1,
        failed: 0,
      }),
    findTarget: (db, { projectId }) => webhooks.findTarget(db, projectId, projectId),
    findWebhookFigures: about(PROJECTS / 2, (db) => webhooks.findWebhookFigures(db)),
    hasEnabledWebhooks: (db) => webhooks.hasEnabledWebhooks(db),
    listAttempts: (db, { projectId }) =>
      each([null, projectId], (id) => webhooks.listAttempts(db, projectId, { id, limit: 10 })),
    listHours: (db, { projectId }) => webhooks.listHours(db, projectId, projectId),
    listWebhooks: (db, { projectId }) => each([null, projectId], (id) => webhooks.listWebhooks(db, projectId, id)),
    renewLeases: (db, { projectId }) => webhooks.renewLeases(db, [{ projectId, id: projectId }], 'x', 1_000),
    replaceWebhookSecret: (db, at) =>
      webhooks.replaceWebhookSecret(db, actor(at), { id: at.projectId, secret: hash('y'), overlapMs: 1_000, max: 5 }),
  },
};

function ownersOf(at: Where, find: (wanted: readonly owners.WalletKey[]) => Promise<unknown>) {
  const key = { projectId: at.projectId, afterLink: 0, links: 20 };
  const wanted = [
    { ...key, addressKey: `a${at.id}`, userId: null },
    { ...key, addressKey: `a${at.id}`, userId: BigInt(at.id) },
    { ...key, addressKey: SHARED.address, userId: null },
    { ...key, addressKey: 'nobody', userId: null },
  ];
  return each([...wanted.map((one) => [one]), wanted], find);
}

/** What is exported beside statements: parts of them, and what reads their rows. */
const NO_STATEMENTS: Record<string, readonly string[]> = {
  audit: ['insertAuditEntries'],
  'external-ids': ['isExternalIdTaken', 'throwExternalIdError'],
  'find-users': ['currentUserBy', 'linkedIdentity', 'userById'],
  'idempotency-keys': ['isKeyTaken', 'storeAnswers'],
  imports: ['beginImport'],
  'import-users': ['holderOf', 'toImportRows', 'withHolders', 'withIdentity', 'write'],
  logins: ['addedAccounts', 'isLinked', 'isUserRemoved', 'storedAnswers'],
  'linked-accounts': ['isOtherEmail', 'isToBeLinked', 'linkedAccount', 'throwLinkingError', 'toAccounts'],
  'list-users': ['countGroupKey', 'pageGroupKey', 'slice', 'windowGroupKey'],
  operators: ['insertLogEntries', 'milliseconds'],
  'scan-users': ['scanGroupKey'],
  'totals/sign-ups': ['signUpsGroupKey'],
  'totals/time-ranges': ['bucketCoverOf', 'isOpenAtEnd', 'isOpenAtStart'],
  'totals/totals': ['methodIs', 'startOfRank', 'totalOf'],
  transfers: ['throwProjectError'],
  'user-columns': [
    'banOfUser',
    'changesFields',
    'importUpdates',
    'isBanned',
    'loginUpdates',
    'namesOf',
    'recordArrays',
    'shownColumns',
    'toUser',
    'usersOf',
  ],
};

test('every statement is known here', async () => {
  const folder = new URL('../../dist/', import.meta.url);
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.sql.js'));
  expect(files.length).toBeGreaterThan(15);
  const modules = await Promise.all(files.map((file) => import(new URL(file, folder).href)));
  const functions = modules.flatMap((module) => Object.keys(module).filter((key) => typeof module[key] === 'function'));
  const known = [
    ...Object.values(STATEMENTS).flatMap((statements) => Object.keys(statements)),
    ...Object.values(NO_STATEMENTS).flat(),
  ];
  expect(functions.sort()).toEqual(known.sort());
});

interface Reads {
  readonly rows: number;
  readonly pages: number;
}

/** What this transaction has read so far of the tables and their indexes, triggers and foreign keys included. */
const READS = `
  SELECT sum(pg_stat_get_xact_tuples_returned(oid))::float8 AS rows, sum(pg_stat_get_xact_blocks_fetched(oid))::float8 AS pages
  FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')`;

test('what a statement reads grows with what it answers, and not with the tables', { timeout: 900_000 }, async () => {
  const made = await copyTemplate();
  const database = createDatabase(parseConfig({ ...made.env, DATABASE_POOL_SIZE: '1' }).db);
  await database.start();
  const client = await database.pool.connect();
  const db = createStatements(undefined)(client, null);

  /** Runs a statement and undoes it. */
  async function undone(work: () => Promise<unknown>): Promise<unknown> {
    await client.query('BEGIN');
    return work().finally(() => client.query('ROLLBACK'));
  }

  async function measure(run: Run, at: Where): Promise<Reads & { answered: number }> {
    let reads: Reads & { answered: number } = { rows: 0, pages: 0, answered: 0 };
    await undone(async () => {
      const before = (await client.query(READS)).rows[0];
      const answer = await run(db, at);
      const after = (await client.query(READS)).rows[0];
      const answered = Array.isArray(answer) ? answer.length : 1;
      reads = { rows: after.rows - before.rows, pages: after.pages - before.pages, answered };
    });
    return reads;
  }

  const calls = Object.entries(STATEMENTS).flatMap(([module, ofModule]) =>
    Object.entries(ofModule).map(([name, given]) => ({
      name: `${module}: ${name}`,
      ...(typeof given === 'function' ? { run: given, about: 0, pages: undefined } : given),
    })),
  );

  async function expectFew(state: string): Promise<void> {
    for (const { name, run, about, pages: most } of calls) {
      for (const at of [LARGE, SMALL]) {
        const what = `${name} of ${at.appId}, ${state}`;
        const measured = () => measure(run, at).catch((error: Error) => error);
        const mostPages = (subject: number) => most ?? PAGES_A_CALL + PAGES_A_ROW * subject;
        let reads = await measured();
        // Other databases that change tables empty the caches of this session, so that it reads some pages of each index again.
        for (let turn = 1; turn < 3; turn += 1)
          if (!(reads instanceof Error) && reads.pages > mostPages(Math.max(reads.answered, about)))
            reads = await measured();
        if (reads instanceof Error) {
          expect.soft(reads.message, what).toBe('');
          continue;
        }
        const { rows, pages, answered } = reads;
        const subject = Math.max(answered, about);
        expect
          .soft(rows, `rows read by ${what}, about ${subject}`)
          .toBeLessThanOrEqual(ROWS_A_CALL + ROWS_A_ROW * subject);
        expect.soft(pages, `pages read by ${what}, about ${subject}`).toBeLessThanOrEqual(mostPages(subject));
      }
    }
  }

  await stayUnanalyzed(client);
  // As in the sessions of PostgreSQL; the embedded database takes such a plan after five executions.
  await client.query('SET plan_cache_mode = force_generic_plan');
  await client.query(
    `INSERT INTO projects (id, name, app_id) VALUES (1, 'Project 1', '${LARGE.appId}'), (777, 'Project 777', '${SMALL.appId}')`,
  );
  await fillTables(client, { rows: ROWS, projects: PROJECTS });
  await expectFew('never analyzed');
  await client.query('ANALYZE');
  await expectFew('analyzed');
  // From then on a scan of an index alone looks cheap.
  await client.query('VACUUM');
  await client.query('DISCARD PLANS');
  await expectFew('vacuumed');

  client.release();
  await database.close();
  await made.drop();
});
