import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { negotiate } from '@fastify/accept-negotiator';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../errors.js';
import { codeHeaders } from '../http/failures.js';
import { preferredType } from '../http/media-types.js';
import { type DemoCredentials, pagePolicy, withDemo } from '../http/public-routes.js';

export interface GuidesOptions {
  readonly graphiql: boolean;
  readonly dashboard: boolean;
  readonly demoCredentials: DemoCredentials;
}

/** A file as it is sent. */
interface Guide {
  readonly type: string;
  readonly text: string;
  readonly compressed: Buffer;
  readonly tag: string;
}

const HTML = 'text/html; charset=utf-8';
const TYPES: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json; charset=utf-8',
  graphql: 'text/plain; charset=utf-8',
  md: 'text/markdown; charset=utf-8',
  txt: 'text/plain; charset=utf-8',
};
const POLICY = pagePolicy({ script: "'self'", style: "'self'" });
const MISSING = '404';
/** The file of the checkout, from which callers generate code. */
const SCHEMA = 'schema.graphql';
/** The list of pages for language models (llmstxt.org). */
const LIST = 'llms.txt';

/** The documentation for callers, below /docs, as make-guides.js makes it. Its start is also the front page; two files are beside it. */
export const guidesPlugin: FastifyPluginAsync<GuidesOptions> = async (app, { demoCredentials, ...parts }) => {
  const find = createFinder(parts);
  for (const url of ['/', '/docs', '/docs/*', `/${SCHEMA}`, `/${LIST}`]) {
    const file = url.startsWith('/docs') ? '' : url.slice(1);
    app.get(url, { schema: { hide: true } }, async (request, reply) => {
      const { '*': name = file } = request.params as { '*'?: string };
      const guide = name === MISSING ? null : await find(name);
      if (guide !== null) return send(guide, request, reply);
      // As some write addresses.
      const page = name.replace(/\/$/, '');
      if (page !== '' && page !== name && (await find(page)) !== null) return reply.redirect(`/docs/${page}`, 308);
      return refuse(request, reply);
    });
  }

  async function send(guide: Guide, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const isPage = guide.type === HTML;
    reply.type(guide.type);
    if (isPage) reply.header('content-security-policy', POLICY);
    const demo = isPage ? await demoCredentials(request) : null;
    // Neither stored nor compressed, because it shows a secret.
    if (demo !== null) return reply.send(withDemo(guide.text, demo));
    reply.headers({ 'cache-control': 'no-cache', etag: guide.tag, vary: 'accept-encoding' });
    if (isKnown(guide.tag, request.headers['if-none-match'])) return reply.code(304).send();
    const encoding = negotiate(request.headers['accept-encoding'] ?? 'identity', ['gzip', 'identity']);
    if (encoding !== 'gzip') return reply.send(guide.text);
    return reply.header('content-encoding', 'gzip').send(guide.compressed);
  }

  /** In a browser a page that leads on. */
  async function refuse(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const guide = await find(MISSING);
    const isForPeople = preferredType(request.headers.accept, ['text/html', 'application/json']) === 'text/html';
    if (!isForPeople || guide === null)
      throw new AppError('PATH_NOT_FOUND', 'There is no such page of the documentation.');
    return reply
      .code(404)
      .headers({ ...codeHeaders('PATH_NOT_FOUND', app.docsOf), 'content-security-policy': POLICY })
      .type(HTML)
      .send(guide.text);
  }
};

/** Finds a file by its name, or null. The files are read when the first one is asked for. What has failed is tried again by the next request. */
export function createFinder(
  parts: Readonly<Record<string, boolean>>,
  { read = readFiles, make = toGuide } = {},
): (name: string) => Promise<Guide | null> {
  const guides = new Map<string, Promise<Guide>>();
  let files: Promise<Map<string, string>> | undefined;
  return async (name) => {
    files ??= read().catch((error) => {
      files = undefined;
      throw error;
    });
    const text = (await files).get(name);
    if (text === undefined) return null;
    const makePage = () =>
      make(name, withParts(text, parts)).catch((error) => {
        guides.delete(name);
        throw error;
      });
    const guide = guides.get(name) ?? makePage();
    guides.set(name, guide);
    return guide;
  };
}

/** Leaves out what a page says of a part that is off. */
function withParts(text: string, parts: Readonly<Record<string, boolean>>): string {
  return text.replaceAll(/<!--(\w+)-->(.*?)<!--\/\1-->/gs, (_, part, html) => (parts[part] ? html : ''));
}

async function readFiles(): Promise<Map<string, string>> {
  const bytes = await readFile(new URL('./guides.json.gz', import.meta.url)).then(promisify(gunzip));
  return new Map(Object.entries(JSON.parse(bytes.toString())));
}

async function toGuide(name: string, text: string): Promise<Guide> {
  const compressed = await promisify(gzip)(text, { level: 9 });
  const hash = createHash('sha256').update(text).digest('base64url').slice(0, 22);
  return { type: TYPES[name.split('.')[1] ?? ''] ?? HTML, text, compressed, tag: `W/"${hash}"` };
}

/** True if the client has the file already (RFC 9110, section 13.1.2). */
function isKnown(tag: string, header = ''): boolean {
  return header.split(',').some((part) => ['*', tag, tag.slice('W/'.length)].includes(part.trim()));
}
