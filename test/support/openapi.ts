import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { Json } from './app.js';

/** What the REST interface answered, as its OpenAPI document must know it. */
export interface Answered {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly status: number;
  readonly headers: Headers;
  readonly body: Json;
}

/** The checks of this process, made from the first document that was asked for: every service has the same. */
let checks: ((answer: Answered) => void) | undefined;

/** Throws where an answer of a path under /server is none that the document describes. */
export function requireDocumented(document: () => Json, answer: Answered): void {
  if (!answer.path.startsWith('/server')) return;
  checks ??= compileChecks(document());
  checks(answer);
}

/** The same for a service in a process of its own; one that is gone before it could be asked for its document is let go. */
export async function requireDocumentedBy(url: string, answer: Answered): Promise<void> {
  if (!answer.path.startsWith('/server')) return;
  const fetched = async () => (await fetch(`${url}/openapi.json`)).json();
  const document = checks === undefined ? await fetched().catch(() => null) : {};
  if (document !== null) requireDocumented(() => document, answer);
}

function compileChecks(document: Json): (answer: Answered) => void {
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema({ ...document, $id: 'openapi' });
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
  // A path without a parameter comes before one that would take it as a parameter.
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
    // What is no operation is refused in the form of every failure, but for HEAD, which has no body.
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
