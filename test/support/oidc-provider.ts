import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A person at the provider. */
export interface Person {
  readonly preferred_username?: string;
  readonly email?: string;
  readonly email_verified?: boolean;
  readonly roles?: string | string[];
}

export const CLIENT = { id: 'userdir', secret: 'a-secret-of-the-client-that-is-long-enough' };

/** An OpenID Connect provider (oidc-provider) in this process. Its login form accepts anyone who is in `people`. */
export async function startProvider(people: Record<string, Person>) {
  const { default: Provider } = await import('oidc-provider');
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const redirectUris: string[] = [];
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        // Filled when the service listens.
        redirect_uris: ['http://127.0.0.1:1/dashboard/oidc/callback'],
        response_types: ['code'],
        grant_types: ['authorization_code'],
      },
    ],
    claims: { openid: ['sub', 'preferred_username', 'email', 'email_verified', 'roles'] },
    conformIdTokenClaims: false,
    cookies: { keys: ['a-key-of-this-test'] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: true } },
    findAccount: (_context: unknown, id: string) =>
      people[id] === undefined ? undefined : { accountId: id, claims: () => ({ sub: id, ...people[id] }) },
  });
  // A service has its port only after it was told the issuer.
  provider.Client.prototype.redirectUriAllowed = (uri) => redirectUris.includes(uri);
  server.on('request', provider.callback());
  return {
    issuer,
    allow: (uri: string) => void redirectUris.push(uri),
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** A browser that keeps cookies and follows redirects by hand. */
export function createBrowser() {
  const jars = new Map<string, Map<string, string>>();
  async function request(url: string, init: RequestInit = {}): Promise<Response> {
    const { host } = new URL(url);
    const jar = jars.get(host) ?? new Map<string, string>();
    jars.set(host, jar);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, {
      ...init,
      redirect: 'manual',
      headers: { ...(init.headers as object), cookie },
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') jar.delete(name);
      else jar.set(name, value);
    }
    return response;
  }
  return {
    request,
    /** Follows redirects, and logs in as `person` where the provider asks; returns the first answer of `end`. */
    async logIn(start: string, person: string, end: string): Promise<Response> {
      let url = start;
      let response = await request(url);
      for (let steps = 0; steps < 20; steps += 1) {
        const location = response.headers.get('location');
        if (url.startsWith(end)) return response;
        if (location !== null) {
          url = new URL(location, url).href;
          response = await request(url);
          continue;
        }
        const form = await response.text();
        const prompt = /name="prompt" value="(\w+)"/.exec(form)?.[1] ?? '';
        const action = /action="([^"]+)"/.exec(form)?.[1];
        if (action === undefined) throw new Error(`${response.status} ${form.slice(0, 500)}`);
        url = new URL(action, url).href;
        response = await request(url, {
          method: 'POST',
          headers: { 'content-type': 'application/x-www-form-urlencoded' },
          body: new URLSearchParams({ prompt, login: person, password: 'any' }).toString(),
        });
      }
      throw new Error('Too many redirects.');
    },
    cookieFor: (url: string) =>
      [...(jars.get(new URL(url).host) ?? [])].map(([name, value]) => `${name}=${value}`).join('; '),
  };
}
