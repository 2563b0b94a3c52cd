import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A proxy that ends TLS with a certificate of its own making, and passes requests on as local ones. */
export async function startTlsProxy(name: string) {
  let target = '';
  const server = createServer(makeCertificate(name), (near, answer) => {
    const headers = { ...near.headers, host: new URL(target).host };
    const far = request(target + near.url, { method: near.method, headers }, (response) => {
      answer.writeHead(response.statusCode ?? 502, response.headers);
      response.pipe(answer);
    });
    far.on('error', () => answer.destroy());
    near.pipe(far);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    origin: `https://${name}:${(server.address() as AddressInfo).port}`,
    leadTo(url: string) {
      target = url;
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** A certificate for a host of this machine, and its key. */
export function makeCertificate(name: string): { key: Buffer; cert: Buffer } {
  const folder = mkdtempSync(join(tmpdir(), 'userdir-tls-'));
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`, '-days', '2'];
  try {
    execFileSync('openssl', ['req', '-x509', ...curve, '-keyout', key, '-out', cert, ...subject], { stdio: 'ignore' });
    return { key: readFileSync(key), cert: readFileSync(cert) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
