import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { rm } from 'node:fs/promises';
import type { FastifyRequest } from 'fastify';
import { commandFileIn, reachableHere } from '../config/config.js';
import { writePrivateFile } from '../config/private-files.js';
import { type Operator, operatorName, THE_OPERATOR } from '../domain/operators.js';
import { AppError } from '../errors.js';
import { isLoopback, isThroughProxy, readAddress } from '../http/client-address.js';

/** The name of who runs a command. Who has the token is believed. */
export const OPERATOR_HEADER = 'userdir-operator';

/**
 * Lets in commands on the machine of a server that holds the embedded database: who has the token, which is in a file that only the system user
 * of the server can read, acts as an admin of all projects.
 */
export interface CommandToken {
  /** Writes where the server is, and its token, for commands. */
  show(url: string): Promise<void>;
  hide(): Promise<void>;
  /** Whether a request brings a token, right or wrong. */
  isAsked(request: FastifyRequest): boolean;
  /** Who is let in; null if the token is wrong, or the request comes from elsewhere. */
  operatorOf(request: FastifyRequest): Operator | null;
}

/** What a server writes for commands, when it can answer them. */
export interface CommandFile {
  readonly url: string;
  readonly token: string;
}

const TOKEN_BYTES = 32;
const BEARER = /^bearer +(\S+) *$/i;

export function createCommandToken(dataDir: string): CommandToken {
  const path = commandFileIn(dataDir);
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  const expected = digest(token);
  return {
    async show(url) {
      const file: CommandFile = { url: reachableHere(url), token };
      await writePrivateFile(path, JSON.stringify(file));
    },
    hide: () => rm(path, { force: true }),
    isAsked: ({ headers }) => BEARER.test(headers.authorization ?? ''),
    operatorOf(request) {
      const { headers } = request;
      const [, presented = ''] = BEARER.exec(headers.authorization ?? '') ?? [];
      if (!timingSafeEqual(digest(presented), expected) || !isFromHere(request)) return null;
      const { success, data, error } = NAME.safeParse(headers[OPERATOR_HEADER]);
      if (success) return { ...THE_OPERATOR, name: data };
      throw new AppError('BAD_USER_INPUT', String(error.issues[0]?.message));
    },
  };
}

const NAME = operatorName(OPERATOR_HEADER);

/** Of equal length, so that they can be compared in constant time. */
const digest = (text: string) => createHash('sha256').update(text).digest();

/** Whether the connection begins on this machine, and no proxy stands in between. */
function isFromHere({ headers, socket }: FastifyRequest): boolean {
  const [remote, local] = [readAddress(socket.remoteAddress), readAddress(socket.localAddress)];
  return remote !== null && (remote === local || isLoopback(remote)) && !isThroughProxy(headers);
}
