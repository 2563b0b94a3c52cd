import { readFile } from 'node:fs/promises';
import { basename, extname } from 'node:path';
import { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Argument, type Command } from 'commander';
import { type DocumentToAdd, documentIdOf } from '../domain/projects.js';
import { AppError } from '../errors.js';
import { jsonOption, option, projectOption } from './arguments.js';
import type { Io, OperationContext } from './operation.js';
import type { CommandContext } from './run.js';
import { listTable } from './terminal.js';

const ADD_HELP = `
A FILE is a GraphQL document, or a manifest of many: what generate-persisted-query-manifest of Apollo writes, or a JSON object of texts
by their SHA-256, as relay-compiler does. The ID of a document is the SHA-256 of its text.`;

export function addDocumentCommands(program: Command, { define }: CommandContext): void {
  const document = program.command('document').description('register GraphQL documents, which requests name by ID');
  define(document, {
    name: 'document add',
    description: 'register documents of a project, all or none',
    help: ADD_HELP,
    examples: ['document add --project app_1 queries/*.graphql', 'document add --project app_1 manifest.json --json'],
    takes: [
      new Argument('<FILE...>', 'files with the documents'),
      projectOption(),
      option('--name <NAME>', 'the name of a single document for people to read; without it, that of the file'),
      jsonOption(),
    ],
    params: (_files, { project }) => ({ project }),
    input: async (files: string[], { name }) => {
      const documents = (await Promise.all(files.map(readDocuments))).flat();
      if (name !== undefined && documents.length > 1) throw new Error('--name is for a single document.');
      const named = documents.map((each) => ({ ...each, name: name ?? each.name }));
      return Readable.from([Buffer.from(JSON.stringify(named))]);
    },
    run: addDocuments,
    print: (added) => listTable(added, { head: ['ID', 'Name'], cells: ({ id, name }) => [id, name], none: '' }),
  });
  define(document, {
    name: 'document list',
    description: 'list the registered documents of a project, oldest first',
    examples: ['document list --project app_1'],
    takes: [projectOption(), jsonOption()],
    run: async ({ services, operator }, { project }: { project: string }) => {
      const documents = await services.documents.listDocuments(await services.projects.getScope(project, operator));
      return documents.map(({ id, name, createdAt, bytes }) => ({ id, name, created_at: createdAt, bytes }));
    },
    print: (documents) =>
      listTable(documents, {
        head: ['ID', 'Name', 'Registered', 'Bytes'],
        cells: ({ id, name, created_at, bytes }) => [id, name, created_at, bytes],
        none: 'The project has no registered document.',
      }),
  });
  define(document, {
    name: 'document remove',
    description: 'remove a registered document; requests that name it are refused from then on',
    examples: [`document remove --project app_1 ${'0'.repeat(64)}`],
    takes: [new Argument('<ID>', 'the ID of the document, as `document list` shows it'), projectOption(), jsonOption()],
    run: async ({ services, operator }, { project, id }: { project: string; id: string }) => {
      const name = await services.documents.removeDocument(await services.projects.getScope(project, operator), id);
      return { id, name };
    },
    print: ({ name }) => `Removed ${name}.`,
  });
}

/** A document as it is sent to the operation. */
interface NamedText extends DocumentToAdd {
  /** Where it stands, for errors. */
  readonly file: string;
}

/** Reads the documents of a file. */
async function readDocuments(file: string): Promise<NamedText[]> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new Error(`The file ${file} ${error.code === 'ENOENT' ? 'does not exist' : 'cannot be read'}.`);
  });
  if (extname(file) !== '.json') return [{ file, name: basename(file, extname(file)), text }];
  return readManifest(file, text).map((entry) => ({ ...entry, file: `${file}, ${entry.name}` }));
}

/** The documents of a manifest. */
function readManifest(file: string, text: string): DocumentToAdd[] {
  return entriesOf(file, text).map(({ id, name, body }) => {
    if (typeof body !== 'string') throw new Error(`${file} is not a manifest: see document add --help.`);
    const label = name ?? /(?:query|mutation|subscription)\s+(\w+)/.exec(body)?.[1] ?? id;
    if (documentIdOf(body) !== id)
      throw new Error(`${file}: the ID of ${label} is not the SHA-256 of its text in hexadecimal.`);
    return { name: label, text: body };
  });
}

function entriesOf(file: string, text: string): { id: string; name?: string; body: unknown }[] {
  try {
    const manifest = JSON.parse(text);
    const { operations } = manifest;
    if (Array.isArray(operations)) return operations.map(({ id, name, body }) => ({ id, name, body }));
    return Object.entries(manifest).map(([id, body]) => ({ id, body }));
  } catch {
    throw new Error(`${file} is not a manifest: see document add --help.`);
  }
}

async function addDocuments(
  { services, operator }: OperationContext,
  { project }: { project: string },
  { input }: Io,
): Promise<{ id: string; name: string }[]> {
  // Loaded only for this, because the schema takes time.
  const { findFaults } = await import('../graphql/request.js');
  const scope = await services.projects.getScope(project, operator);
  const chunks: Buffer[] = [];
  for await (const chunk of input) chunks.push(chunk);
  const documents = JSON.parse(Buffer.concat(chunks).toString()) as NamedText[];
  const faults: string[] = [];
  for (const { file, text } of documents) {
    faults.push(...findFaults(text).map((fault) => `${file}: ${fault}`));
    // A server may do this between its requests.
    await nextTurn();
  }
  if (faults.length > 0) throw new AppError('BAD_USER_INPUT', `Nothing was registered.\n${faults.join('\n')}`);
  return services.documents.addDocuments(
    scope,
    documents.map(({ name, text }) => ({ name, text })),
  );
}
