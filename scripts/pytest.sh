#!/bin/sh
# Runs pytest with these arguments: `scripts/pytest.sh [coverage] …`. In CI, up to three tests that failed run once more,
# alone: the suites start servers, browsers and child processes on two shared cores, where one test in some ten thousand
# waits too long. A test that fails again fails the run, and so does a fourth failure. Each one that passes alone is named
# at the end, so that it is found and repaired (docs/decisions/0088).
set -u
cd "$(dirname "$0")/.."

most=3
cache=.pytest_cache/again
pytest="python -m pytest"
if [ "$1" = coverage ]; then
  pytest="coverage run -m pytest"
  shift
fi
[ -n "${CI:-}" ] || exec .venv/bin/$pytest "$@"

rm -rf "$cache"
.venv/bin/$pytest -o cache_dir="$cache" "$@"
status=$?
[ "$status" -eq 1 ] || exit "$status" # 1: tests failed; anything else is no matter of tests
failed=$(.venv/bin/python -c 'import json, sys; print("\n".join(json.load(open(sys.argv[1]))))' "$cache/v/cache/lastfailed") || exit 1
count=$(printf '%s\n' "$failed" | wc -l)
[ "$count" -le "$most" ] || exit 1

echo "==> $count failed; once more, alone:"
.venv/bin/$pytest -o cache_dir="$cache" "$@" -n 0 --last-failed --last-failed-no-failures none || exit 1
echo "==> failed beside others, and passed alone; find out why:"
printf '%s\n' "$failed"
