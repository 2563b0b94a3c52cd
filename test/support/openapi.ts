import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { Json } from './app.js';

/** A REST answer, to be checked against the OpenAPI document. */
export interface Answered {
  readonly method: string;
  /** Includes the query string. */
  readonly path: string;
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json;
}

/** Compiled once per process from the first document, because every service has the same document. */
let checks: ((answer: Answered) => void) | undefined;

/** The paths whose answers are JSON that the document describes. */
const DESCRIBED = /^\/(server|wallets|changes|users)/;

/** Throws if the document does not describe an answer of such a path. */
export function requireDocumented(document: () => Json, answer: Answered): void {
  if (!DESCRIBED.test(answer.path)) return;
  checks ??= compileChecks(document());
  checks(answer);
}

/** The same for a service in another process; skips the check if that ended before its document was read. */
export async function requireDocumentedBy(url: string, answer: Answered): Promise<void> {
  if (!DESCRIBED.test(answer.path)) return;
  const fetched = async () => (await fetch(`${url}/openapi.json`)).json();
  const document = checks === undefined ? await fetched().catch(() => null) : {};
  if (document !== null) requireDocumented(() => document, answer);
}

/** The answers of this version have nothing that the document does not name, although it leaves room for later ones. */
function closed(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(closed);
  if (schema === null || typeof schema !== 'object') return schema;
  const inner = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  return schema.type === 'object' && schema.properties ? { additionalProperties: false, ...inner } : inner;
}

function compileChecks(document: Json): (answer: Answered) => void {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema({ ...closed(document), $id: 'openapi' });
  const validators = new Map<string, ValidateFunction>();
  const validatorAt = (pointer: string) => {
    const found = validators.get(pointer) ?? ajv.compile({ $ref: `openapi#${pointer}` });
    validators.set(pointer, found);
    return found;
  };
  const routes = Object.keys(document.paths).map((path) => ({
    path,
    pattern: new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}$`),
  }));
  // Paths without parameters come first, because a parameter would match them too.
  routes.sort((a, b) => Number(a.path.includes('{')) - Number(b.path.includes('{')));
  const deref = (pointer: string): { pointer: string; value: Json } => {
    const parts = pointer.split('/').slice(1);
    const value = parts.reduce((at: Json, part) => at?.[part.replaceAll('~1', '/').replaceAll('~0', '~')], document);
    return value?.$ref === undefined ? { pointer, value } : deref(value.$ref.slice(1));
  };

  return ({ method, path, status, headers, body }) => {
    const fail = (fault: string) => {
      throw new Error(`${method} ${path} answered ${status}, which the OpenAPI document does not describe: ${fault}`);
    };
    const route = routes.find(({ pattern }) => pattern.test(path.replace(/[?#].*$/s, '')));
    const operation = `/paths/${route?.path.replaceAll('/', '~1')}/${method.toLowerCase()}`;
    const responses = deref(operation).value?.responses;
    // An unknown operation gets the common error body; HEAD gets no body.
    if (responses === undefined) {
      if (body === undefined) return;
      if (status < 400) fail('there is no such operation');
      const validate = validatorAt('/components/schemas/Error');
      if (!validate(body)) fail(ajv.errorsText(validate.errors));
      return;
    }
    const { pointer, value } = deref(`${operation}/responses/${status in responses ? status : 'default'}`);
    for (const [name, header] of Object.entries<Json>(value.headers ?? {})) {
      const described = header.$ref === undefined ? header : deref(header.$ref.slice(1)).value;
      const arrived = headers.get(name);
      if (arrived === null && described.required) fail(`the header ${name} is missing`);
      if (arrived !== null && !new RegExp(described.schema.pattern ?? '').test(arrived)) fail(`${name}: ${arrived}`);
    }
    if (!headers.get('content-type')?.startsWith('application/json')) fail('it is no JSON');
    const validate = validatorAt(`${pointer}/content/application~1json/schema`);
    if (!validate(body)) fail(ajv.errorsText(validate.errors));
  };
}
