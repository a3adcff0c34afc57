#!/bin/sh
# Runs the tests once for each database there is; arguments go to pytest. TOOLHUB_TEST_POSTGRES_URL names a
# PostgreSQL server on which test databases may be made; tests without a database run on SQLite only. All tests run
# side by side, one more than there are cores, because many of them wait; a choice of them, given by arguments, runs
# one after the other.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
export PATH

run() {
  echo "==> testing on $1"
  shift
  scripts/pytest.sh coverage "$@"
}

chosen=$#
[ "$chosen" -gt 0 ] || set -- -n $(($(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal
coverage erase
TOOLHUB_TEST_DATABASE=sqlite run SQLite "$@"
tested="SQLite only (set TOOLHUB_TEST_POSTGRES_URL to test PostgreSQL too)"
if [ -n "${TOOLHUB_TEST_POSTGRES_URL:-}" ]; then
  TOOLHUB_TEST_DATABASE=postgres run PostgreSQL "$@"
  tested="SQLite, PostgreSQL"
fi

coverage combine --quiet
if [ "$chosen" -eq 0 ]; then
  python scripts/coverage_gate.py
else
  echo "coverage: not judged, as only a choice of tests ran"
fi
echo
echo "==> tested on: $tested"
