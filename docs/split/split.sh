#!/bin/sh
# FIRST=postgres://… SECOND=postgres://… split.sh APP_ID…
#     divides a database. SECOND is a standby of FIRST, and no userdir may run. Afterwards both databases take writes: FIRST serves the
#     projects that stay, SECOND those that are named, and each refuses the projects of the other.
#
# Both URLs are for psql, as a superuser. May run again after it has failed.
#
# Prepare:
# 1. Put HAProxy with haproxy.cfg of this folder on every balancer before the service, and sides.map beside it, empty: all requests go to the
#    first side.
# 2. Make a standby of the whole database, outside of Patroni, with synchronous_standby_names empty:
#      pg_basebackup -d postgres://replicator@db.example.com -D … -R -X stream -C -S userdir_second
#    Start it, but no userdir of the second side yet. DATABASE_REPLICA_URL must not lead to it.
# Divide; from here to step 3 no project is served:
# 1. Stop every userdir, also imports by the command.
# 2. FIRST=postgres://postgres@db.example.com/userdir SECOND=postgres://postgres@second.example.com/userdir split.sh app_… app_…
# 3. Start userdir on both sides, and name the projects of the second side in sides.map, with `second` after each App ID.
# Later, on each side: `userdir project delete` of the projects of the other, and drop the replication slot of the first. Give the second
# side standbys of its own. To create a project of the second side, run `userdir project create` there, and name it in the map.
set -eu
: "${FIRST:?}" "${SECOND:?}" "${PATIENCE_SECONDS:=60}"
[ $# -gt 0 ] || { echo 'Which projects go to the second side?' >&2; exit 1; }

sql() { PGOPTIONS='-c default_transaction_read_only=off' psql -X -q -A -t -v ON_ERROR_STOP=1 -c "$2" "$1"; }
read_only() { sql "$1" "DO \$\$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = $2', current_database()); END \$\$"; }
fail() { echo "$1" >&2; exit 1; }

case $* in *[!0-9A-Za-z_\ -]*) fail 'An App ID has letters, digits, - and _ only.' ;; esac
moving=$(printf "'%s'," "$@")
moving="app_id IN (${moving%,})"
[ "$(sql "$SECOND" "SELECT count(*) FROM projects WHERE $moving")" = $# ] || fail "SECOND does not have each of these $# projects."
identity='SELECT system_identifier FROM pg_control_system()'
[ "$(sql "$FIRST" "$identity")" = "$(sql "$SECOND" "$identity")" ] || fail 'SECOND is not a standby of FIRST.'

if [ "$(sql "$SECOND" 'SELECT pg_is_in_recovery()')" = t ]; then
  # What is under way, such as an import, is undone as a whole: run it again at the side of its project.
  read_only "$FIRST" on
  trap 'read_only "$FIRST" off; echo "FIRST takes writes again." >&2' EXIT
  sql "$FIRST" "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database()
    AND backend_type = 'client backend' AND pid <> pg_backend_pid()" >/dev/null
  place=$(sql "$FIRST" 'SELECT pg_current_wal_flush_lsn()')
  left=$((PATIENCE_SECONDS * 10))
  until [ "$(sql "$SECOND" "SELECT pg_last_wal_replay_lsn() >= '$place'")" = t ]; do
    [ "$left" -gt 0 ] || fail "SECOND has not caught up within $PATIENCE_SECONDS seconds."
    left=$((left - 1))
    sleep 0.1
  done
  [ "$(sql "$SECOND" 'SELECT pg_promote(true, 60)')" = t ] || fail 'SECOND was not promoted within 60 seconds.'
  trap - EXIT
fi
# It has inherited the setting.
read_only "$SECOND" off
read_only "$FIRST" off
# disable URL CONDITION: refuses the projects that live on the other side, as `project disable` does.
disable() {
  sql "$1" "WITH disabled AS (UPDATE projects SET disabled_at = now() WHERE disabled_at IS NULL AND $2 RETURNING id)
    INSERT INTO audit_log (project_id, actor, action, details) SELECT id, 'split.sh', 'disable', '{}' FROM disabled"
}
disable "$FIRST" "$moving"
disable "$SECOND" "NOT $moving"
echo 'Start userdir on both sides, and name the projects of the second side in sides.map.'
