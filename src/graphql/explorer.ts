import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import type { GraphiQLOptions } from 'graphql-yoga';
import type { Services } from '../context.js';
import { userFilter } from '../domain/filters.js';
import type { Credentials } from '../domain/projects.js';
import { pagePolicy, SITE } from '../http/public-routes.js';

/** Makes the page of GraphiQL, with the credentials that it may show. */
export type Explorer = (demo: Credentials | null) => Promise<ExplorerPage>;

/** GraphiQL, as explorer-page.js makes it. It opens with examples; in demo mode also with credentials and IDs that exist. */
export function createExplorer(services: Services): Explorer {
  // Nine megabytes, which are read when they are first asked for.
  let reading: Promise<string> | null = null;
  let rendered: { key: string; page: ExplorerPage } | undefined;

  return async (demo) => {
    reading ??= readTemplate().catch((error) => {
      reading = null;
      throw error;
    });
    const template = await reading;
    const options = explorerOptions(demo, demo && (await findExampleUser(services, demo)));
    const key = JSON.stringify(options);
    if (rendered?.key !== key) rendered = { key, page: render(template, options) };
    return rendered.page;
  };
}

async function readTemplate(): Promise<string> {
  const page = await readFile(new URL('./explorer.html.gz', import.meta.url)).then(promisify(gunzip));
  return page
    .toString()
    .replace('</head>', () => `${HEAD}</head>`)
    .replace('<div id="root">', (root) => SITE.header.replace('"/docs"', '$& target="_blank"') + root);
}

interface ExplorerPage {
  readonly html: string;
  /** Its Content-Security-Policy. */
  readonly policy: string;
}

function render(template: string, options: GraphiQLOptions): ExplorerPage {
  // The JSON stands inside a script element, so it must not contain its end tag.
  const html = template.replace('__OPTIONS__', () => JSON.stringify(options).replaceAll('<', '\\u003c'));
  const script = html.slice(html.indexOf('<script>') + '<script>'.length, html.lastIndexOf('</script>'));
  const policy = pagePolicy({
    script: `'sha256-${createHash('sha256').update(script).digest('base64')}'`,
    style: "'unsafe-inline'",
    font: 'data:',
    worker: 'blob:',
  });
  return { html, policy };
}

/** GraphiQL has no option for this: on a phone, the editor stands above the answer; tabs stay in place, or the first click on each would miss. */
const HEAD = `
${SITE.viewport}
<style>${SITE.style}
  :root { color-scheme: light dark; }
  #body { display: flex; flex-direction: column; height: 100dvh; }
  #root { flex: 1; min-height: 0; }
  #root > *, #root .graphiql-container { height: 100%; }
  .site { color: light-dark(#3b4b68, #b7c2d7); }
  .graphiql-container .graphiql-logo { display: none; }
  .error-docs { text-decoration: underline; cursor: pointer; }
  .graphiql-tab { transform: none !important; }
  @media (max-width: 720px) {
    .graphiql-container { --sidebar-width: 44px; }
    .graphiql-container .graphiql-main, .graphiql-container #graphiql-session { flex-direction: column; }
    .graphiql-container .graphiql-sessions { margin: 6px 6px 6px 0; min-height: 0; }
    .graphiql-container .graphiql-plugin { max-width: none !important; min-height: 45%; }
    .graphiql-container .graphiql-horizontal-drag-bar { display: none; }
    .graphiql-container .graphiql-query-editor { padding: 8px; column-gap: 8px; }
  }
</style>
`;

/** The user whom the examples name where there is no other. */
const PLACEHOLDER_USER = {
  id: '42',
  email: 'ada@example.com',
  address: 'GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ',
};

/** One of the newest users with an email and an address to search by. Null where there is none, or the service fails. */
async function findExampleUser(
  { projects, users }: Services,
  demo: Credentials,
): Promise<typeof PLACEHOLDER_USER | null> {
  try {
    const page = { page: 1, limit: 20, withAccounts: true };
    const byEmail = userFilter({ loginMethods: ['email'] });
    const newest = await users.listPage(await projects.authenticate(demo), byEmail, page);
    const user = newest.users.find(({ accounts = [] }) => accounts.length > 0);
    const address = user?.accounts?.[0]?.publicKey;
    return user && address ? { id: String(user.id), email: user.authValue, address } : null;
  } catch {
    return null;
  }
}

function explorerOptions(demo: Credentials | null, exampleUser: typeof PLACEHOLDER_USER | null): GraphiQLOptions {
  const { id, email, address } = exampleUser ?? PLACEHOLDER_USER;
  const headers = asWritten({
    'service-app-id': demo?.appId ?? '<APP_ID>',
    'service-app-secret': demo?.appSecret ?? '<APP_SECRET>',
  });
  const hint = demo
    ? '# The demo project, all of it made up. Its\n# credentials stand below, under Headers.'
    : '# Put the App ID and the App Secret of a\n# project below, under Headers. Then re-fetch\n# the schema: Ctrl+Shift+R.';
  const example = (query: string, variables: object) => ({ query, variables: asWritten(variables), headers });
  return {
    defaultTabs: [
      { query: `${hint}\n${NEWEST_USERS}`, headers },
      example(RECORD_LOGIN, { input: { authMethod: 'email', authValue: 'rosalind@example.com' }, key: null }),
      example(WALK_BY_CURSOR, { after: null }),
      example(PAGE_BY_DATES, { ...lastYear(), page: 1 }),
      example(SEARCH_USERS, { email, address }),
      example(VERIFY_WALLET, { address, userId: id }),
      example(DELETE_USER, { id, really: false }),
    ],
    headers,
    // Whoever has to put in credentials sees where; others see the variables. GraphiQL would show none of the first tab.
    defaultEditorToolsVisibility: demo === null ? 'headers' : 'variables',
    // Without this, a 401 makes the browser open its own password window.
    credentials: 'omit',
    shouldPersistHeaders: false,
  };
}

/** The time until now in which the demo project has sign-ups by passkey in each month. */
function lastYear() {
  const startDate = new Date();
  startDate.setUTCFullYear(startDate.getUTCFullYear() - 1);
  return { startDate: startDate.toISOString().slice(0, 10), endDate: new Date().toISOString().slice(0, 10) };
}

const asWritten = (value: object) => JSON.stringify(value, null, 2);

const NEWEST_USERS = `# Ctrl+Space completes, Ctrl+Enter runs; the
# book on the left explains every field.
query NewestUsers {
  users(first: 5) {
    totalCount
    nodes {
      id
      authMethod
      authValue
      createdAt
      accounts {
        network
        publicKey
        walletType
      }
    }
  }
}
`;

const RECORD_LOGIN = `# Your backend sends this at each login: the
# first one registers the user. A retry with the
# same \`key\` counts no second login.
mutation RecordLogin($input: RecordLoginInput!, $key: String) {
  recordLogin(input: $input, idempotencyKey: $key) {
    created
    user {
      id
      email
      loginCount
    }
  }
}
`;

const WALK_BY_CURSOR = `# For the next page put \`endCursor\` of the
# answer into the variable \`after\`. A cursor
# stays good while users come and go.
query WalkByCursor($after: String) {
  users(first: 3, after: $after, filter: { loginMethods: [EMAIL, WALLET] }) {
    totalCount
    pageInfo {
      hasNextPage
      endCursor
    }
    nodes {
      id
      loginMethod
      createdAt
    }
  }
}
`;

const PAGE_BY_DATES = `# By passkey, from the first day to the last,
# both included. Without dates: at any time.
query PageByDates(
  $startDate: String
  $endDate: String
  $page: Int!
) {
  userPage(
    filter: {
      startDate: $startDate
      endDate: $endDate
      loginMethods: [PASSKEY]
    }
    page: $page
    limit: 5
  ) {
    totalUser
    users {
      id
      createdAt
      lastLogin
    }
  }
}
`;

const SEARCH_USERS = `# By the whole login email, or by an address.
# Several users may have the same. The box of
# \`findUser\` also takes IDs, yours too.
query SearchUsers($email: String!, $address: String!) {
  byEmail: searchUsers(by: { email: $email }) {
    ...Found
  }
  byAddress: searchUsers(by: { address: $address }) {
    ...Found
  }
  inOneBox: findUser(any: $email) {
    ...Found
  }
}

fragment Found on User {
  id
  authMethod
  authValue
  lastLogin
}
`;

const VERIFY_WALLET = `# \`exists\` is the decision. Without \`userId\`
# a yes means only that the address belongs to
# some user.
query VerifyWallet($address: String!, $userId: ID!) {
  ofThisUser: verifyWallet(address: $address, userId: $userId) {
    exists
    walletType
  }
  ofAnyUser: verifyWallet(address: $address) {
    exists
    userId
    network
  }
  parseAddress(address: $address) {
    canonical
    checksumValid
  }
  several: verifyWallets(
    inputs: [{ address: $address }, { address: "0x12" }]
  ) {
    verdict
    reason
    asOf
  }
}
`;

const DELETE_USER = `# Removes a user, and does nothing as long as
# the variable \`really\` is false.
mutation DeleteUser($id: ID!, $really: Boolean!) {
  deleteUser(id: $id) @include(if: $really) {
    id
  }
}
`;
