/** The name of a value in a schema: `user.created` is `USER_CREATED`. Pages of the dashboard make it too, so this file imports nothing. */
export type NameOf<Value extends string> = Uppercase<
  Value extends `${infer Noun}.${infer Verb}` ? `${Noun}_${Verb}` : Value
>;

export function nameOf<Value extends string>(value: Value): NameOf<Value> {
  return value.replace('.', '_').toUpperCase() as NameOf<Value>;
}
