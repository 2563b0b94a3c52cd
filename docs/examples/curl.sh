#!/bin/sh
# The service with nothing but curl: sh curl.sh
set -eu
url=${USERDIR_URL:-http://127.0.0.1:4000}
ask() { curl -sS --max-time 15 -u "$APP_ID:$APP_SECRET" -H 'content-type: application/json' "$@"; echo; }

# Records a login. A retry with the same key counts once.
ask "$url/graphql" -d '{"query": "mutation ($key: String) { recordLogin(idempotencyKey: $key, input: { authMethod: \"email\", authValue: \"ada@example.com\" }) { created user { id } } }",
  "variables": {"key": "'"$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"'"}}'
# Finds the user, and decides about a wallet.
ask -G "$url/server/users/search" --data-urlencode email=ada@example.com
ask "$url/server/wallets/verify" -d '{"address": "0x52908400098527886E0F7030069857D2E4169EE7", "user_id": 1}'
# The changes so far.
ask "$url/changes?limit=10"
