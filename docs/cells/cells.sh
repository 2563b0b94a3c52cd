#!/bin/sh
# cells.sh hold       refuses the requests of a project
# cells.sh release    accepts them again
# cells.sh CELL       sends them to a cell, by the name of its backend in haproxy.cfg
#
# For `userdir project move`, which says which project by USERDIR_APP_ID. Changes the HAProxy of this machine and the files that it reads
# when it starts. Each of the three may run twice. With several machines, run it on each and fail if one fails:
#   --map-command 'for lb in lb1 lb2; do ssh "$lb" USERDIR_APP_ID="$USERDIR_APP_ID" cells.sh cell2 || exit 1; done'
set -eu
: "${USERDIR_APP_ID:?}" "${HAPROXY_SOCKET:=/run/haproxy/admin.sock}"
: "${CELLS_MAP:=/etc/haproxy/cells.map}" "${HELD_MAP:=/etc/haproxy/held.map}"

# Two projects may move at once.
exec 9>"$CELLS_MAP.lock"
flock 9

# One command to HAProxy. It answers with nothing but an empty line, or says what is wrong.
tell() { echo "$1" | socat -t 5 - "UNIX-CONNECT:$HAPROXY_SOCKET"; }

# rewrite MAP [VALUE]: the file with this value for the project, or without the project.
rewrite() {
  { grep -v "^$USERDIR_APP_ID " "$1" || true; } >"$1.new"
  if [ $# = 2 ]; then echo "$USERDIR_APP_ID $2" >>"$1.new"; fi
  mv "$1.new" "$1"
}

put() {
  rewrite "$1" "$2"
  answer=$(tell "set map $1 $USERDIR_APP_ID $2")
  case $answer in *"not found"*) answer=$(tell "add map $1 $USERDIR_APP_ID $2") ;; esac
  if [ -n "$answer" ]; then echo "$answer" >&2; exit 1; fi
}

remove() {
  rewrite "$1"
  answer=$(tell "del map $1 $USERDIR_APP_ID")
  case $answer in '' | *"not found"*) ;; *) echo "$answer" >&2; exit 1 ;; esac
}

case ${1:?} in
  hold) put "$HELD_MAP" 1 ;;
  release) remove "$HELD_MAP" ;;
  *) put "$CELLS_MAP" "$1" ;;
esac
