import { type ASTNode, getNamedType, isInputObjectType } from 'graphql';
import { schema } from './schema.js';

/** The name with which the error of a value begins (errors.ts); of several names the first. */
const NAME = /^([a-zA-Z]\w*(?:\[\d+\])?(?:\.\w+)*)(?:, \w+)*: /;

/**
 * The argument of a root field that an error is about: its name or, within an input object or a list, the path to the value,
 * such as `input.accounts[0].publicKey`. Null if the error is not about an argument. Fields below the root have no arguments.
 */
export function argumentAtFault(message: string, field: ASTNode | undefined): string | null {
  const path = NAME.exec(message)?.[1];
  if (path === undefined || field?.kind !== 'Field') return null;
  const [name = ''] = path.split(/[.[]/);
  const roots = [schema.getQueryType(), schema.getMutationType()].map((type) => type?.getFields()[field.name.value]);
  for (const argument of roots.flatMap((root) => root?.args ?? [])) {
    if (argument.name === name) return path;
    const type = getNamedType(argument.type);
    if (isInputObjectType(type) && Object.hasOwn(type.getFields(), name)) return `${argument.name}.${path}`;
  }
  return null;
}
