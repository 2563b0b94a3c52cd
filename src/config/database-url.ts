/* What is wrong with a URL of a database that libpq or another client would take, and node-postgres would not, or would read as another one. */

/** What follows the name of the setting in a sentence; null for a URL without such a fault. It repeats no part of it: it has a password. */
export function findUrlFault(url: string): string | null {
  if (url.includes('#')) return 'has a "#", which ends what is read of a URL. Write it as %23.';
  const [address = '', ...queries] = url.split('?');
  const [, authority = ''] = /^\w+:\/\/([^/]*)/.exec(address) ?? [];
  const query = queries.join('?');
  const host = authority.slice(authority.lastIndexOf('@') + 1);
  const params = new URLSearchParams(query);
  if (host.includes(',') || params.get('host')?.includes(','))
    return 'has several hosts, and node-postgres connects to one. Name one address that leads to the server, such as that of HAProxy (docs/operating.md).';
  if (params.has('schema'))
    return 'has "schema", which PostgreSQL does not know. Write options=-csearch_path%3D and the name of the schema instead.';
  if (host === '' && authority !== '')
    return 'has a user and no host. Write localhost after the "@"; if "host" is the directory of a socket, it counts instead.';
  if (authority === '' || URL.canParse(url)) return null;
  return 'cannot be read as a URL. In the user and the password, write / as %2F, ? as %3F, @ as %40 and % as %25; the port is a number.';
}
