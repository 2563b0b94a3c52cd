import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type OperatorRole, operatorName, operatorNameOf, THE_OPERATOR } from '#dist/domain/operators.js';
import { useTestApp } from '../support/app.js';

/** Operators who come by the single sign-on, and how people are named. The pages around it are tested by test/api/dashboard-oidc. */

const app = useTestApp();
const operators = () => app.context.services.operators;
const CALLER = { userAgent: 'test', requestId: 'r-1' };

let serial = 0;
function newPerson(role: OperatorRole = 'support') {
  serial += 1;
  const name = `person-${process.pid}-${serial}`;
  return { subject: `issuer ${name}`, name: () => name, role };
}
const found = async (name: string) => (await operators().listOperators(THE_OPERATOR)).find((one) => one.name === name);
const logOf = async (name: string) => {
  const { rows } = await app.context.db.pool.query(
    `SELECT actor, request_id, action, details FROM operator_log
     WHERE action IN ('add_operator', 'set_role') AND details ->> 'operator' = $1 ORDER BY id`,
    [name],
  );
  return rows.map(({ actor, request_id, action, details }) => [actor, request_id, action, details]);
};

test('a person who comes first is added with the role and the name that the provider gives; later the name stays, and the role is that of now', async () => {
  const person = newPerson();
  const name = person.name();
  const actor = `operator:${name}`;
  const first = await operators().logInSubject(person, CALLER);
  expect(first.token).toMatch(/^[\w-]{43}$/);
  expect(await found(name)).toMatchObject({ name, role: 'support', projects: null, source: 'sso' });
  const nameless = () => {
    throw new Error('Nobody asks for the name of who is known.');
  };
  await operators().logInSubject({ ...person, name: nameless }, CALLER);
  await operators().logInSubject({ ...person, name: nameless, role: 'admin' }, CALLER);
  expect(await found(name)).toMatchObject({ name, role: 'admin' });
  expect(await logOf(name)).toEqual([
    [actor, 'r-1', 'add_operator', { operator: name, role: 'support', by: 'sso' }],
    [actor, 'r-1', 'set_role', { operator: name, role: 'admin', by: 'sso' }],
  ]);
});

test('a name that belongs to another operator is refused, and who is admitted is asked before a session begins', async () => {
  const person = newPerson();
  await operators().addOperator(THE_OPERATOR, person.name(), 'viewer');
  await expect(operators().logInSubject(person, CALLER)).rejects.toMatchObject({
    code: 'CONFLICT',
    message: `The name "${person.name()}" belongs to another operator. Remove that one first.`,
  });

  const other = newPerson();
  const asked: string[] = [];
  const admit = async (name: string) => {
    asked.push(name);
    throw new Error('Too many.');
  };
  await expect(operators().logInSubject(other, { ...CALLER, admit })).rejects.toThrow('Too many.');
  expect(asked).toEqual([other.name()]);
  const { rows } = await app.context.db.pool.query(
    'SELECT FROM operator_sessions s JOIN operators o ON o.id = s.operator_id WHERE o.name = $1',
    [other.name()],
  );
  expect(rows).toEqual([]);
});

test('a person who is removed in this moment does not begin a session', async () => {
  const person = newPerson();
  const admit = (name: string) => operators().removeOperator(THE_OPERATOR, name);
  await expect(operators().logInSubject(person, { ...CALLER, admit })).rejects.toMatchObject({
    code: 'UNAUTHENTICATED',
    message: `The operator "${person.name()}" was removed in this moment.`,
  });
});

test('a session keeps the beginning of what a browser calls itself', async () => {
  const userAgents = ['', 'x'.repeat(199), 'x'.repeat(200), `${'x'.repeat(200)}y`];
  for (const userAgent of userAgents) {
    const person = newPerson();
    await operators().logInSubject(person, { ...CALLER, userAgent });
    const sessions = await operators().listSessions(THE_OPERATOR);
    const own = sessions.filter(({ operator }) => operator === person.name());
    expect(own.map((session) => session.userAgent)).toEqual([userAgent.slice(0, 200)]);
  }
});

test('whatever a system user is called, an operator may have the name that is made of it', () => {
  const name = operatorName('name');
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.string({ unit: 'grapheme' })), (systemUser) => {
      const made = operatorNameOf(systemUser);
      expect(name.parse(made)).toBe(made);
    }),
  );
  const named = ['Ada', 'DOMAIN\\Ada L', '--ada', 'ädä', '', '€', `${'x'.repeat(70)}`, `${'-'.repeat(256)}ada`];
  expect(named.map(operatorNameOf)).toEqual([
    'ada',
    'domain-ada-l',
    'ada',
    'd-',
    'admin',
    'admin',
    'x'.repeat(64),
    'admin',
  ]);
});

test('what an operator was refused in a project that is gone by then is recorded nowhere', async () => {
  const { appId } = await app.createProject();
  const { audit, lifecycle, projects } = app.context.services;
  const scope = await projects.getScope(appId);
  await audit.recordRefusal(scope, 'r-2', 'deleteProject');
  const { rows } = await app.context.db.pool.query(
    `SELECT details FROM audit_log WHERE action = 'refuse' AND project_id = (SELECT id FROM projects WHERE app_id = $1)`,
    [appId],
  );
  expect(rows).toEqual([{ details: { refused: 'deleteProject' } }]);
  await lifecycle.deletePart(scope, { ms: 60_000, goesOn: false });
  await expect(audit.recordRefusal(scope, 'r-3', 'deleteProject')).resolves.toBeUndefined();
});
