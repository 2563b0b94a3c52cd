#!/usr/bin/env bash
# pgbouncer.sh FOLDER: puts the PgBouncer of Debian 13 into FOLDER/bin, with the libraries that it needs, and installs nothing. Debian 12 has
# 1.18, which cannot keep prepared statements in transaction mode. apt fetches it from where this machine gets Debian, and checks its signature.
set -euo pipefail
folder=$(realpath -m "$1")
mkdir -p "$folder"/{sources,lists/partial,cache/archives/partial,packages,bin}
sed 's/\bbookworm\b/trixie/g' /etc/apt/sources.list.d/debian.sources | awk -v RS= -v ORS='\n\n' '!/security/' >"$folder/sources/newer.sources"
options=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$folder/sources" -o "Dir::State::lists=$folder/lists"
  -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=root -o Acquire::http::Timeout=20 -o Acquire::Retries=1)
apt-get "${options[@]}" update
(cd "$folder/packages" && apt-get "${options[@]}" download pgbouncer libc6 libcares2 libevent-2.1-7t64 libpam0g libssl3t64 libsystemd0)
for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder/root"; done
loader=$(echo "$folder"/root/usr/lib/*/ld-linux-*.so.*)
printf '#!/bin/sh\nexec %q --library-path %q %q "$@"\n' "$loader" "$(dirname "$loader")" "$folder/root/usr/sbin/pgbouncer" >"$folder/bin/pgbouncer"
chmod +x "$folder/bin/pgbouncer"
rm -rf "$folder"/{sources,lists,cache,packages}
"$folder/bin/pgbouncer" --version
