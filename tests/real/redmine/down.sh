#!/usr/bin/env bash
# Stops the Redmine started by up.sh (by its pid file).   --purge also deletes its data (not the apt packages).
set -euo pipefail
KIT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PORT=${REDMINE_PORT:-3080}
RUN=${TOOLHUB_REAL_HOME:-$KIT/../../../.real}/run/redmine-$PORT
# Waits until the process is gone; a zombie counts as gone.
gone() { [ ! -e "/proc/$1/status" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; }
stop() {
  [ -s "$1" ] || return 0
  local pid; pid=$(cat "$1")
  if ! gone "$pid"; then
    kill "$pid" 2>/dev/null || true
    for _ in $(seq 1 80); do gone "$pid" && break; sleep 0.25; done
    gone "$pid" || kill -9 "$pid" 2>/dev/null || true
  fi
  rm -f "$1"
}
stop "$RUN/puma.pid"
if [ "${1:-}" = --purge ]; then
  rm -rf "$RUN"
  ROOT=${REDMINE_ROOT:-$(dirname "$(dpkg -L redmine | grep '/config\.ru$')")}
  if [ -L "$ROOT/instances/toolhub$PORT" ]; then rm -f "$ROOT/instances/toolhub$PORT"; fi
fi
