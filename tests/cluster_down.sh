#!/usr/bin/env bash
# usage: cluster_down.sh DIR     ends what cluster_up.sh DIR started, the last one first
set -u
tac "$1/pids" | while read -r name pid; do
  kill -TERM "$pid" 2> /dev/null
  for _ in $(seq 100); do kill -0 "$pid" 2> /dev/null || break; sleep 0.1; done
  kill -0 "$pid" 2> /dev/null && { echo "$name $pid ignored TERM"; kill -KILL "$pid"; }
done
exit 0
