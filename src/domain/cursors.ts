import { crc32 } from 'node:zlib';
import { isTooLong } from './input-limits.js';
import { EARLIEST, LATEST, readableText } from './parse.js';
import type { AuditEntry } from './projects.js';

/* Cursors: places in lists, as callers get them and hand them back. */

/** A position in the list of users, newest first. It stays valid when its user is removed. */
export interface Position {
  readonly createdAt: Date;
  readonly id: number;
}

const CURSOR = /^(\d{1,15})\.(\d{1,16})\./;

/** A text that callers hand back as it is. The checksum reveals one that was truncated. */
export function opaqueText(text: string): string {
  return Buffer.from(`${text}.${crc32(text).toString(36)}`).toString('base64url');
}

/** The match of an opaque text, if it has the form. Its checksum is right if encoding gives the text again. */
export function openText(opaque: string, form: RegExp): RegExpExecArray | null {
  return isTooLong('cursor', opaque) ? null : form.exec(Buffer.from(opaque, 'base64url').toString());
}

export function encodeCursor({ createdAt, id }: Position): string {
  return opaqueText(`${createdAt.getTime()}.${id}`);
}

/** The cursor of an item of a list, such as a user or a ban. */
export function cursorOf({ createdAt, id }: { readonly createdAt: string; readonly id: number }): string {
  return encodeCursor({ createdAt: new Date(createdAt), id });
}

/** The words of errors for a cursor of a list of `things`. */
export const cursorForm = (things: string) => `a cursor of ${things} from an earlier answer`;

/** A cursor from `encodeCursor`. */
export const cursor = (name: string, things: string) => readableText(name, cursorForm(things), decodeCursor);

function decodeCursor(text: string): Position | null {
  const match = openText(text, CURSOR);
  if (match === null) return null;
  const position = { createdAt: new Date(Number(match[1])), id: Number(match[2]) };
  const exists = position.createdAt >= EARLIEST && position.createdAt <= LATEST;
  return exists && encodeCursor(position) === text ? position : null;
}

const BAN_CURSOR = /^bans\.(.*)\.[0-9a-z]+$/;

/** The cursor of a ban in GraphQL: it names its list, so that no cursor of users is taken for it. */
export function banCursorOf({ createdAt, id }: { readonly createdAt: string; readonly id: number }): string {
  return opaqueText(`bans.${new Date(createdAt).getTime()}.${id}`);
}

/** A cursor from `banCursorOf`. */
export const banCursor = (name: string) =>
  readableText(name, cursorForm('bans'), (text) => {
    const place = openText(text, BAN_CURSOR)?.[1];
    return place !== undefined && opaqueText(`bans.${place}`) === text ? decodeCursor(opaqueText(place)) : null;
  });

export function positionOf({ at, id }: Pick<AuditEntry, 'at' | 'id'>): Position {
  return { createdAt: new Date(at), id };
}
