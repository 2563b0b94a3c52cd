import {
  type ASTNode,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  getNamedType,
  isObjectType,
  isUnionType,
  type SelectionSetNode,
} from 'graphql';

/**
 * The object type of what a field returns; null for a leaf. The only union of the schema, `_Entity`, has one member, so that a selection
 * of it is one of that member.
 */
export function objectTypeOf(returned: GraphQLOutputType): GraphQLObjectType | null {
  const type = getNamedType(returned);
  if (!isUnionType(type)) return isObjectType(type) ? type : null;
  const [member, ...others] = type.getTypes();
  if (member === undefined || others.length > 0) throw new Error(`${type.name} has several members.`);
  return member;
}

/**
 * Whether a field of the schema, written `Type.field`, is selected anywhere below the field that is resolved, also in a
 * fragment. A field that `@skip` or `@include` leaves out may count as selected.
 */
export function selects({ fieldNodes, returnType, fragments }: GraphQLResolveInfo, coordinate: string): boolean {
  const type = objectTypeOf(returnType);
  return fieldNodes.some(
    ({ selectionSet }) => selectionSet && coordinatesBelow(type, selectionSet, fragments).has(coordinate),
  );
}

/** Each selection is walked once for its document, however often it is spread and executed. */
const known = nodeProperty<SelectionSetNode, ReadonlySet<string>>('fields below');

/** All fields below a selection of a type, as `Type.field`. There are no more than the schema has. */
function coordinatesBelow(
  type: GraphQLObjectType | null,
  selectionSet: SelectionSetNode,
  fragments: GraphQLResolveInfo['fragments'],
): ReadonlySet<string> {
  const done = known.get(selectionSet);
  if (done !== undefined) return done;
  const coordinates = new Set<string>();
  known.set(selectionSet, coordinates);
  for (const selection of selectionSet.selections) {
    const isField = selection.kind === 'Field';
    const field = isField && type !== null ? type.getFields()[selection.name.value] : undefined;
    if (field) coordinates.add(`${type?.name}.${field.name}`);
    const below =
      selection.kind === 'FragmentSpread' ? fragments[selection.name.value]?.selectionSet : selection.selectionSet;
    if (below === undefined || (isField && field === undefined)) continue;
    // A fragment is on the type itself: the schema has no interfaces.
    const typeBelow = field ? objectTypeOf(field.type) : type;
    for (const coordinate of coordinatesBelow(typeBelow, below, fragments)) coordinates.add(coordinate);
  }
  return coordinates;
}

/** A value that is computed once for a node of a document. */
export interface NodeProperty<Node extends ASTNode, Value> {
  get(node: Node): Value | undefined;
  set(node: Node, value: Value): void;
}

/**
 * Keeps a value on the node itself, under a symbol. Not in a WeakMap: once such a map is old, a scavenge counts its keys as alive, and so
 * the documents of requests that are answered (docs/decisions/garbage.md).
 */
export function nodeProperty<Node extends ASTNode, Value>(description: string): NodeProperty<Node, Value> {
  const key = Symbol(description);
  type Noted = Node & { [key]?: Value };
  return {
    get: (node) => (node as Noted)[key],
    set: (node, value) => {
      (node as Noted)[key] = value;
    },
  };
}
