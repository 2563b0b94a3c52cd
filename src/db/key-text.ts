/**
 * The key of a batched read as text: different for keys that differ in any property, because it is made of all of them. The length
 * of a text stands before it, so that no text can pass for two. Keys with the same properties in another order count as different,
 * which costs a second look-up and no wrong answer.
 */
export function keyText(value: unknown): string {
  if (typeof value === 'string') return `${value.length}:${value}`;
  if (typeof value === 'bigint') return `${value}n`;
  if (typeof value !== 'object' || value === null) return String(value);
  if (value instanceof Date) return `@${value.getTime()}`;
  if (Array.isArray(value)) return `[${value.map(keyText).join()}]`;
  if (Object.getPrototypeOf(value) !== Object.prototype) {
    throw new TypeError('A key is made of plain objects, lists, dates and simple values.');
  }
  let text = '{';
  // Quicker than a list of the names, and the same of a plain object.
  for (const name in value) text += `${name}=${keyText((value as Record<string, unknown>)[name])},`;
  return `${text}}`;
}
