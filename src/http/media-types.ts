/* Which media type an Accept header asks for. */

export const JSON_TYPE = 'application/json';
export const EVENT_STREAM = 'text/event-stream';

/** Whether an Accept header names a media type, and does not refuse it. */
export function accepts(header: string | undefined, wanted: string): boolean {
  return rangesOf(header).some(({ type, quality }) => type === wanted && quality > 0);
}

/** The one of the known types that an Accept header prefers, by its order and `q`. Null if it names none, or takes any type before. */
export function preferredType<Type extends string>(header: string | undefined, known: readonly Type[]): Type | null {
  for (const { type, quality } of rangesOf(header).sort((a, b) => b.quality - a.quality)) {
    const found = known.find((each) => each === type);
    if (found !== undefined && quality > 0) return found;
    if (type === '*/*' || type === 'application/*') return null;
  }
  return null;
}

function rangesOf(header = ''): { type: string; quality: number }[] {
  return header.split(',').map((each) => {
    const [type = '', ...parameters] = each.split(';').map((part) => part.trim().toLowerCase());
    return { type, quality: qualityOf(parameters) };
  });
}

function qualityOf(parameters: readonly string[]): number {
  const given = parameters.find((parameter) => parameter.startsWith('q='));
  const quality = given === undefined ? 1 : Number(given.slice('q='.length));
  return Number.isNaN(quality) ? 1 : quality;
}
