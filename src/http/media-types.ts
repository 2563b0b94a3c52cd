/* Reads the media types of an Accept header. */

export const JSON_TYPE = 'application/json';
export const EVENT_STREAM = 'text/event-stream';

/** True if an Accept header names a media type, and does not refuse it. */
export function accepts(header: string | undefined, mediaType: string): boolean {
  return rangesOf(header).some(({ type, quality }) => type === mediaType && quality > 0);
}

/** The one of the known types that an Accept header prefers, by its order and `q`. Null if it names none, or takes any type before. */
export function preferredType<Type extends string>(header: string | undefined, types: readonly Type[]): Type | null {
  for (const { type, quality } of rangesOf(header).sort((a, b) => b.quality - a.quality)) {
    const match = types.find((one) => one === type);
    if (match !== undefined && quality > 0) return match;
    if (type === '*/*' || type === 'application/*') return null;
  }
  return null;
}

function rangesOf(header = ''): { type: string; quality: number }[] {
  return header.split(',').map((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    return { type, quality: qualityOf(parameters) };
  });
}

function qualityOf(parameters: readonly string[]): number {
  const weight = parameters.find((parameter) => parameter.startsWith('q='));
  const quality = weight === undefined ? 1 : Number(weight.slice('q='.length));
  return Number.isNaN(quality) ? 1 : quality;
}
