import type { ASTNode } from 'graphql';

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
