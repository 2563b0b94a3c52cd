#!/bin/sh
# balancers.sh hold | release | CELL       runs `cells.sh` with this argument on every machine of BALANCERS, at once
#
# For the three commands of `userdir project move`, which says which project by USERDIR_APP_ID. Fails if one of them fails, but only after it
# has asked all: one that does not answer must not keep the others from accepting requests again.
set -eu
: "${USERDIR_APP_ID:?}" "${BALANCERS:?the machines, such as \"lb1 lb2\"}" "${ON_BALANCER:=ssh -o BatchMode=yes -o ConnectTimeout=3}"

running=
for balancer in $BALANCERS; do
  $ON_BALANCER "$balancer" USERDIR_APP_ID="$USERDIR_APP_ID" cells.sh "${1:?}" &
  running="$running $!"
done
failed=0
for process in $running; do wait "$process" || failed=1; done
exit "$failed"
