import { type GraphQLField, type GraphQLObjectType, isObjectType } from 'graphql';
import { requireNoNul } from '../domain/input-limits.js';
import { AppError } from '../errors.js';
import { builder, type DashboardContext } from './builder.js';
import './audit.js';
import './bans.js';
import './operators.js';
import './projects.js';
import './secrets.js';
import './status.js';
import './users.js';
import './users.js';
import './webhooks.js';

export const schema = builder.toSchema();
const fieldsOf = (type: unknown) => Object.values((type as GraphQLObjectType<unknown, DashboardContext>).getFields());
for (const field of fieldsOf(schema.getQueryType())) guard(field, async (context) => context);
// A document may have many changes, and take long: before each it is read again what the operator may do.
for (const field of fieldsOf(schema.getMutationType())) guard(field, (context) => context.renew());

for (const type of Object.values(schema.getTypeMap())) {
  if (isObjectType(type) && !type.name.startsWith('__')) for (const field of fieldsOf(type)) refuseNul(field);
}

/** Records what an operator is refused: in the audit trail of the project, or in the log of the operators. */
function guard(
  field: GraphQLField<unknown, DashboardContext>,
  contextNow: (context: DashboardContext) => Promise<DashboardContext>,
): void {
  const { name, resolve } = field;
  if (resolve === undefined) throw new Error(`The field ${name} has no resolver.`);
  field.resolve = async (root, args, given, info) => {
    const context = await contextNow(given);
    try {
      return await resolve(root, args, context, info);
    } catch (error) {
      if (error instanceof AppError && error.code === 'FORBIDDEN') await recordRefusal(context, name, args['appId']);
      throw error;
    }
  };
}

/** PostgreSQL has no text with the character U+0000. Here and not in each field, so that none forgets it. */
function refuseNul(field: GraphQLField<unknown, DashboardContext>): void {
  const { args, resolve } = field;
  if (args.length === 0 || resolve === undefined) return;
  field.resolve = (root, given, context, info) => {
    requireNoNul('arguments', given);
    return resolve(root, given, context, info);
  };
}

export async function recordRefusal(
  { services, operator, requestId, scopeOf }: Pick<DashboardContext, 'services' | 'operator' | 'requestId' | 'scopeOf'>,
  refused: string,
  appId: unknown,
): Promise<void> {
  if (typeof appId === 'string') await services.audit.recordRefusal(await scopeOf(appId), requestId, refused);
  else await services.operators.recordRefusal(operator, requestId, refused);
}
