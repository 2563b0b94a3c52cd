#!/bin/sh
# FROM=postgres://… TO=postgres://… postgresql.sh copy
#     copies the database FROM to TO, an empty database of another PostgreSQL, and keeps TO up to date. FROM is used as before.
# FROM=… TO=… postgresql.sh switch COMMAND…
#     makes FROM read-only and, once TO has everything, runs the command, which leads the services to TO. When none of them uses FROM, TO
#     takes writes. From now on FROM is kept up to date: the same with the URLs exchanged goes back, without a loss.
# FROM=… TO=… postgresql.sh end
#     ends the replication. Before `switch` this gives up; after it nobody can go back.
#
# Both URLs are for psql and pg_dump of the newer version, as superusers. FROM_FOR_TO is the address of FROM for the server of TO, if it is
# another one, and TO_FOR_FROM the other way round. Passwords may be in ~/.pgpass, except in these two: the subscription keeps them until
# `end`, for superusers to read. Each of the three may run again after it has failed.
#
# Prepare:
# 1. On both servers set wal_level = logical, and restart them. Three of max_replication_slots and max_wal_senders must be free. The servers
#    must reach each other.
# 2. On the new one run deploy/roles.sql and, behind a pooler, pooler/role.sql. The database is empty.
# 3. From now on, DATABASE_URL is either port 5000 of the HAProxy of haproxy.cfg beside each userdir, or in a file (DATABASE_URL_FILE), and
#    the service runs by a unit of systemd. DATABASE_DIRECT_URL has to follow in the same way. Unset DATABASE_REPLICA_URL until the new
#    server has a standby.
# 4. Until the end, start no other version of userdir: only rows are replicated.
# Copy, in the shell of all later steps. The old server keeps its log meanwhile: watch its disk. To give up: `end`, and drop the new database.
#   export FROM=postgres://postgres@pg15.example.com/userdir TO=postgres://postgres@pg18.example.com/userdir
#   postgresql.sh copy
# Switch, with the command for HAProxy or that for the file, which has to do this on every machine with a userdir. If TO is not up to date
# within PATIENCE_SECONDS, FROM takes writes again: switch later. If a later step fails, such as your command, or a userdir uses FROM for
# LEAVING_SECONDS more, switch again. Afterwards run `userdir doctor`.
#   postgresql.sh switch sh -c 'echo "disable server database/old; enable server database/new; shutdown sessions server database/old" |
#     socat - UNIX-CONNECT:/run/haproxy/admin.sock'
#   postgresql.sh switch sh -c 'echo postgres://userdir@pg18.example.com/userdir >/etc/userdir/database-url;
#     systemctl restart userdir@4000; sleep 10; systemctl restart userdir@4001'
# Go back: exchange FROM and TO (and FROM_FOR_TO and TO_FOR_FROM), and switch again with old and new exchanged in the command.
# End, which gives up the way back: `end`, and write the new address into the files that you have changed.
set -eu
: "${FROM:?}" "${TO:?}" "${FROM_FOR_TO:=$FROM}" "${TO_FOR_FROM:=$TO}"
# How long writes may wait for TO before FROM takes them again; and, after the command, until no service uses FROM.
: "${PATIENCE_SECONDS:=10}" "${LEAVING_SECONDS:=120}"

# sql URL STATEMENT [OPTIONS]: what it returns, also where the database is read-only.
sql() {
  url=$1 statement=$2
  shift 2
  printf '%s\n' "$statement" | PGOPTIONS='-c default_transaction_read_only=off' psql -X -q -A -t -v ON_ERROR_STOP=1 "$@" "$url"
}

# read_only URL on|off: for every session from now on.
read_only() {
  sql "$1" "SELECT format('ALTER DATABASE %I SET default_transaction_read_only = $2', current_database()) \\gexec"
}

# Ends the sessions that began before, also one that was being made: it is seen a moment later.
close_sessions() {
  since=$(sql "$1" 'SELECT clock_timestamp()')
  for pause in 0.1 0; do
    sql "$1" "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database()
      AND backend_type = 'client backend' AND pid <> pg_backend_pid() AND backend_start < :'since'" -v since="$since" >/dev/null
    sleep "$pause"
  done
}

publish() {
  sql "$1" "SELECT 'CREATE PUBLICATION userdir_upgrade FOR ALL TABLES'
    WHERE NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'userdir_upgrade') \\gexec"
}

# subscribe URL PUBLISHER COPIES: every change of the publisher from now on, and if it copies, every row.
subscribe() {
  sql "$1" "SELECT format('CREATE SUBSCRIPTION userdir_upgrade CONNECTION %L PUBLICATION userdir_upgrade WITH (copy_data = $3)', :'publisher')
    WHERE NOT EXISTS ($SUBSCRIPTION) \\gexec" -v publisher="$2"
}

# Of this database: those of all databases of a server are in one table.
SUBSCRIPTION="SELECT FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE subname = 'userdir_upgrade' AND datname = current_database()"

unsubscribe() {
  sql "$1" "SELECT 'DROP SUBSCRIPTION userdir_upgrade' WHERE EXISTS ($SUBSCRIPTION) \\gexec"
}

fail() { echo "$1" >&2; exit 1; }

# until_true SECONDS URL CONDITION [VARIABLES]
until_true() {
  left=$(($1 * 10)) at=$2 condition=$3
  shift 3
  until [ "$(sql "$at" "SELECT $condition" "$@")" = t ]; do
    [ "$left" -gt 0 ] || return 1
    left=$((left - 1))
    sleep 0.1
  done
}

copy() {
  [ "$(sql "$FROM" 'SHOW wal_level')" = logical ] || fail 'Set wal_level = logical on the server of FROM, and restart it.'
  if [ "$(sql "$TO" "SELECT EXISTS ($SUBSCRIPTION)")" = f ]; then
    if [ "$(sql "$TO" "SELECT to_regclass('public._prisma_migrations') IS NULL")" = t ]; then
      schema=$(pg_dump --schema-only --no-publications --no-subscriptions "$FROM")
      sql "$TO" "$schema" -1 >/dev/null
    fi
    [ "$(sql "$TO" 'SELECT count(*) FROM public._prisma_migrations')" = 0 ] || fail 'TO is not empty.'
    read_only "$TO" on
    publish "$FROM"
    subscribe "$TO" "$FROM_FOR_TO" true
  fi
  # Days, if need be.
  until_true 1000000 "$TO" "bool_and(srsubstate = 'r') FROM pg_subscription_rel"
  # The planner knows nothing of what has been copied.
  sql "$TO" ANALYZE
}

switch() {
  if [ "$(sql "$TO" "SELECT EXISTS ($SUBSCRIPTION)")" = t ]; then
    [ "$(sql "$TO" "SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel")" = t ] || fail 'TO is not a copy yet: run copy to its end.'
    trap 'read_only "$FROM" off; echo "FROM takes writes again." >&2' EXIT
    read_only "$FROM" on
    close_sessions "$FROM"
    place=$(sql "$FROM" 'SELECT pg_current_wal_insert_lsn()')
    until_true "$PATIENCE_SECONDS" "$FROM" "coalesce(bool_or(confirmed_flush_lsn >= :'place'), false)
      FROM pg_replication_slots WHERE slot_name = 'userdir_upgrade' AND database = current_database()" -v place="$place" ||
      fail "TO has not caught up within $PATIENCE_SECONDS seconds."
    # Sequences are not replicated.
    sequences=$(sql "$FROM" "SELECT format('SELECT setval(%L, %s);', format('%I.%I', schemaname, sequencename), last_value)
      FROM pg_sequences WHERE last_value IS NOT NULL")
    sql "$TO" "$sequences" >/dev/null
    # It has everything, so it is no restore.
    sql "$TO" "SELECT recognise_database('', 'moved')" >/dev/null
    trap - EXIT
    unsubscribe "$TO"
  fi
  publish "$TO"
  subscribe "$FROM" "$TO_FOR_FROM" false
  "$@"
  # What is written to TO reaches FROM a moment later. A service that still reads FROM would not find a new user.
  until_true "$LEAVING_SECONDS" "$FROM" "NOT EXISTS (SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND application_name LIKE 'userdir%')" ||
    fail "After $LEAVING_SECONDS seconds, a userdir still uses FROM: lead it to TO, and run switch again."
  read_only "$TO" off
  close_sessions "$TO"
}

end() {
  for url in "$TO" "$FROM"; do unsubscribe "$url"; done
  for url in "$TO" "$FROM"; do sql "$url" 'SET client_min_messages = error; DROP PUBLICATION IF EXISTS userdir_upgrade'; done
}

step=${1:?copy, switch or end}
shift
case $step in
  copy | end) "$step" ;;
  switch) [ $# -gt 0 ] || fail 'Which command leads the services to TO?'; switch "$@" ;;
  *) fail 'copy, switch or end' ;;
esac
