import { z } from 'zod';
import { SUCCESS } from './shapes.js';

/** Answers of the server, and functions that throw Mismatch if an answer is not what the contract requires. */

export interface Answer {
  /** The method, path and body, without credentials. */
  readonly request: string;
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
  /** Undefined if the text is not JSON. */
  readonly body: unknown;
}

/** The server violates the contract. */
export class Mismatch extends Error {
  readonly request: string;
  readonly expected: string;
  readonly arrived: string;

  constructor(asked: Pick<Answer, 'request'>, expected: string, arrived: string) {
    super(`expected ${oneLine(expected)}, got ${oneLine(arrived)}`);
    this.request = oneLine(asked.request);
    this.expected = oneLine(expected);
    this.arrived = oneLine(arrived);
  }
}

/** Control characters from another server could change the operator's terminal. */
const oneLine = (text: string) => text.replace(/\p{Cc}+/gu, ' ');

const MAX_SHOWN_LENGTH = 300;

export function requireThat(
  condition: boolean,
  answer: Pick<Answer, 'request'>,
  expected: string,
  arrived: unknown,
): void {
  if (!condition) throw new Mismatch(answer, expected, typeof arrived === 'string' ? arrived : describeValue(arrived));
}

export function requireStatus(answer: Answer, status: number): void {
  requireThat(answer.status === status, answer, String(status), describeAnswer(answer));
}

export function requireError(answer: Answer, status: number): void {
  const isError = z.object({ error: z.string() }).safeParse(answer.body).success;
  requireThat(
    answer.status === status && isError,
    answer,
    `${status} with {"error": a string}`,
    describeAnswer(answer),
  );
}

/** Returns the result of a successful answer, parsed by `schema`; `form` describes the schema in words. */
export function requireResult<Schema extends z.ZodType>(
  answer: Answer,
  schema: Schema,
  form: string,
): z.output<Schema> {
  const envelope = SUCCESS.safeParse(answer.body).data;
  const parsed = schema.safeParse(envelope?.result);
  const expected = `200 with a message and a result of ${form}`;
  if (answer.status !== 200 || envelope === undefined || !parsed.success)
    throw new Mismatch(answer, expected, describeAnswer(answer));
  return parsed.data;
}

/** The status and the text, as one line of a report. */
export function describeAnswer({ status, text }: Answer): string {
  return `${status} ${truncate(text)}`.trim();
}

function truncate(text: string): string {
  return text.length <= MAX_SHOWN_LENGTH ? text : `${text.slice(0, MAX_SHOWN_LENGTH)}…`;
}

function describeValue(value: unknown): string {
  return truncate(JSON.stringify(value) ?? String(value));
}
