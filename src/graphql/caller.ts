import type { Caller } from '../domain/projects.js';
import { AppError } from '../errors.js';
import { builder, secretScopeEnum } from './builder.js';
import { instantOrNull } from './shared.js';

interface NamedCaller extends Caller {
  readonly appId: string;
  readonly secretLabel: string;
}

const callerType = builder.objectRef<NamedCaller>('Caller').implement({
  description: 'The App Secret with which you ask, and its project.',
  fields: (t) => ({
    projectName: t.exposeString('projectName', { description: 'The name of the project.' }),
    appId: t.exposeID('appId', { description: 'The App ID of the project.' }),
    secretLabel: t.exposeString('secretLabel', {
      description: 'What operators and the audit trail call the secret; `main` is the first one of a project.',
    }),
    scopes: t.expose('scopes', { type: [secretScopeEnum], description: 'What the secret permits.' }),
    expiresAt: t.expose('expiresAt', instantOrNull('When the secret expires; null where it never does.')),
  }),
});

builder.queryField('caller', (t) =>
  t.field({
    type: callerType,
    description:
      'Who asks: whether the credentials are right, of which project they are, and what they permit. It needs no scope. A change is seen within a second.',
    resolve: (_root, _args, { scope }) => {
      const { appId, actor: secretLabel, caller } = scope;
      if (caller === null) throw new AppError('CONFLICT', 'Only a caller with an App Secret can ask for this.');
      return { ...caller, appId, secretLabel };
    },
  }),
);
