import { readId, readSeconds } from '../domain/parse.js';
import { SECRET_SCOPES, type Secret } from '../domain/projects.js';
import { badInput } from '../errors.js';
import { instantOrNull, required, withDefault } from '../graphql/shared.js';
import { APP_ID, builder, secretScopeEnum } from './builder.js';
import { projectType } from './projects.js';

const secretType = builder.objectRef<Secret>('Secret').implement({
  description: 'A secret of a project, without its value, which is kept as a hash only.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'Its id.' }),
    label: t.exposeString('label', { description: 'What people and the audit trail call it.' }),
    scopes: t.expose('scopes', { type: [secretScopeEnum], description: 'What it permits.' }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When it was made.' }),
    lastUsedAt: t.expose('lastUsedAt', instantOrNull('Its last use, to about a minute; null if it was never used.')),
    expiresAt: t.expose('expiresAt', instantOrNull('When it ends or ended; null if it never does.')),
    live: t.exposeBoolean('isLive', { description: 'Whether it is accepted now.' }),
  }),
});

builder.objectField(projectType, 'secrets', (t) =>
  t.field({
    type: [secretType],
    description: 'Every secret that the project ever had, oldest first.',
    resolve: ({ scope }, _args, { services }) => services.secrets.listSecrets(scope),
  }),
);

interface MadeSecret {
  readonly secret: Secret;
  readonly appSecret: string;
  readonly previousExpiresAt: string | null;
  readonly otherLabels: readonly string[];
}

const newSecretType = builder.objectRef<MadeSecret>('NewSecret').implement({
  description: 'A new secret with its value, which is shown this once.',
  fields: (t) => ({
    secret: t.field({ type: secretType, description: 'The secret.', resolve: ({ secret }) => secret }),
    appSecret: t.exposeString('appSecret', { description: 'Its value, the App Secret.' }),
    previousExpiresAt: t.expose(
      'previousExpiresAt',
      instantOrNull('When the secrets that it replaces end; null if it replaces none.'),
    ),
    otherLabels: t.exposeStringList('otherLabels', {
      description: 'The labels of the secrets that stay as they were, after a rotation; empty where a secret is added.',
    }),
  }),
});

builder.mutationFields((t) => ({
  addSecret: t.field({
    type: newSecretType,
    description: 'Adds a secret. Needs ADMIN. CONFLICT if a secret of this label is live.',
    args: {
      appId: t.arg.id(APP_ID),
      label: t.arg.string(required('What people and the audit trail call it.')),
      scopes: t.arg({ type: [secretScopeEnum], required: true, description: 'What it permits, at least one.' }),
      expiresInSeconds: t.arg.float({ description: 'When it ends, from now; without it never.' }),
    },
    resolve: async (_root, args, { services, scopeOf, requestId }) => {
      const { label, scopes, expiresInSeconds } = args;
      const scope = await scopeOf(args.appId);
      scope.projectIdFor('operate');
      if (scopes.length === 0) throw badInput('scopes', [], 'at least one scope');
      const expiresInMs = expiresInSeconds == null ? null : readSeconds('expiresInSeconds', expiresInSeconds, 1);
      const distinct = SECRET_SCOPES.filter((each) => scopes.includes(each));
      const wanted = { label, scopes: distinct, expiresInMs };
      const { appSecret, id } = await services.secrets.addSecret(scope, wanted, requestId);
      return {
        secret: await services.secrets.getSecret(scope, id),
        appSecret,
        previousExpiresAt: null,
        otherLabels: [],
      };
    },
  }),
  rotateSecret: t.field({
    type: newSecretType,
    description: 'Replaces the live secrets of a label by a new one with their scopes. Needs ADMIN. NOT_FOUND.',
    args: {
      appId: t.arg.id(APP_ID),
      label: t.arg.string(required('The label of the secret.')),
      overlapSeconds: t.arg.float(
        withDefault(
          0,
          'How long the old secret still works; those before it end when they were to. 0 ends all at once.',
        ),
      ),
    },
    resolve: async (_root, { appId, label, overlapSeconds }, { services, scopeOf, requestId }) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('operate');
      const overlapMs = readSeconds('overlapSeconds', overlapSeconds, 0);
      const rotated = await services.secrets.rotateSecret(scope, { label, overlapMs }, requestId);
      return { ...rotated, secret: await services.secrets.getSecret(scope, rotated.id) };
    },
  }),
  revokeSecret: t.field({
    type: secretType,
    description: 'Ends a secret at once. Needs ADMIN. NOT_FOUND.',
    args: { appId: t.arg.id(APP_ID), id: t.arg.id(required('The id of the secret.')) },
    resolve: async (_root, { appId, id }, { services, scopeOf, requestId }) => {
      const scope = await scopeOf(appId);
      scope.projectIdFor('operate');
      const secretId = readId('id', id);
      await services.secrets.revokeSecret(scope, secretId, requestId);
      return services.secrets.getSecret(scope, secretId);
    },
  }),
}));
