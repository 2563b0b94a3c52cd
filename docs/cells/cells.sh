#!/bin/sh
# cells.sh hold       refuses the requests of a project
# cells.sh release    accepts them again
# cells.sh CELL       sends them to a cell, by the name of its backend in haproxy.cfg
#
# For `userdir project move`, which says which project by USERDIR_APP_ID. Changes the HAProxy of this machine and the files that it reads
# when it starts. Each of the three may run twice. With several machines, balancers.sh runs it on all.
set -eu
: "${USERDIR_APP_ID:?}" "${HAPROXY_SOCKET:=/run/haproxy/admin.sock}"
: "${CELLS_MAP:=/etc/haproxy/cells.map}" "${HELD_MAP:=/etc/haproxy/held.map}"

# Two projects may move at once.
exec 9>"$CELLS_MAP.lock"
flock 9

# change COMMAND MAP TEXT [VALUE]: a command to HAProxy, and whether it then says this of the project. One that hangs or dies says nothing.
change() {
  answer=$(echo "$1 map $2 $USERDIR_APP_ID ${4-}; get map $2 $USERDIR_APP_ID" | socat -t 3 - "UNIX-CONNECT:$HAPROXY_SOCKET")
  case $answer in *"$3"*) ;; *) return 1 ;; esac
}

fail() { echo "HAProxy: ${answer:-no answer}" >&2; exit 1; }

# rewrite MAP [VALUE]: the file with this value for the project, or without the project.
rewrite() {
  { grep -v "^$USERDIR_APP_ID " "$1" || true; } >"$1.new"
  if [ $# = 2 ]; then echo "$USERDIR_APP_ID $2" >>"$1.new"; fi
  mv "$1.new" "$1"
}

put() {
  rewrite "$1" "$2"
  # An entry that is not there can only be added, and one that is would be there twice.
  change set "$1" "value=\"$2\"" "$2" || change add "$1" "value=\"$2\"" "$2" || fail
}

remove() {
  rewrite "$1"
  change del "$1" found=no || fail
}

case ${1:?} in
  hold) put "$HELD_MAP" 1 ;;
  release) remove "$HELD_MAP" ;;
  *) put "$CELLS_MAP" "$1" ;;
esac
