/* How each interface spells a name. Pages of the dashboard spell too, so this file imports nothing. */

/** Spells a field as the caller's interface does, so that an error names the field that the caller wrote. */
export type Spelling = (field: string) => string;

export const snakeCase: Spelling = (field) => field;

/** Every login asks for some. Fields are named by this program only, so there are few. */
const camelCased = new Map<string, string>();

export const camelCase: Spelling = (field) => {
  let spelled = camelCased.get(field);
  if (spelled === undefined) {
    spelled = field.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
    camelCased.set(field, spelled);
  }
  return spelled;
};

/** The words of a name in camel case: `on_conflict` of `onConflict`, for the parameter of a URL; `on-conflict` for an option. */
export const separated = (name: string, separator: '_' | '-') =>
  name.replace(/[A-Z]/g, (letter) => separator + letter.toLowerCase());

/** The name of a value in a schema: `user.created` is `USER_CREATED`. */
export type NameOf<Value extends string> = Uppercase<
  Value extends `${infer Noun}.${infer Verb}` ? `${Noun}_${Verb}` : Value
>;

export function nameOf<Value extends string>(value: Value): NameOf<Value> {
  return value.replace('.', '_').toUpperCase() as NameOf<Value>;
}

/** A text as it stands within a sentence: it begins with a small letter. */
export const inSentence = (text: string) => text.replace(/^./, (letter) => letter.toLowerCase());
