import { randomUUID } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { type FileHandle, open, rename, rm } from 'node:fs/promises';

/* Files with secrets in DATA_DIR, where other system users may be able to write. */

/**
 * Writes a file that only this system user can read; its readers see the whole file or none. It is made under a random name, and fails where
 * that exists, also as a link: nobody else can have made it before, and so chosen who reads it.
 */
export async function writePrivateFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${randomUUID()}`;
  try {
    const file = await open(draft, 'wx', 0o600);
    try {
      await file.writeFile(text);
    } finally {
      await file.close();
    }
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

/** The text of such a file. Throws where another system user may have written it: of a link, of another owner, or writable for others. */
export async function readPrivateFile(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ELOOP' ? notPrivate(path) : error;
  });
  try {
    if (!(await isPrivate(file))) throw notPrivate(path);
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}

const OTHERS_WRITE = 0o022;

/** Whether others may make and rename files in a directory. */
export const isWritableForOthers = ({ mode }: Pick<Stats, 'mode'>): boolean => (mode & OTHERS_WRITE) !== 0;

/** What that means, for an operator. */
export const othersMayWrite = (directory: string): string =>
  `Other system users may write in ${directory}: they could replace the database, or files by which commands find the server`;

/** Root may use the file of the service's user. */
async function isPrivate(file: FileHandle): Promise<boolean> {
  const { uid, mode } = await file.stat();
  const self = process.geteuid?.() ?? uid;
  return (uid === self || uid === 0 || self === 0) && (mode & OTHERS_WRITE) === 0;
}

const notPrivate = (path: string) =>
  new Error(`${path} is not used: another system user may have written it. Delete it, and restart the server.`);
