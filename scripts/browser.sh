#!/bin/sh
# Brings .venv and the machine to what `make test-browser` needs: Playwright from its lock, and a Chromium.
# TOOLHUB_TEST_CHROMIUM names one to use; otherwise it is looked for on PATH and, for root on Debian, installed.
set -eu
cd "$(dirname "$0")/.."

fail() { echo "toolhub: $*" >&2; exit 1; }

scripts/install.sh browser
for name in ${TOOLHUB_TEST_CHROMIUM:-chromium chromium-browser google-chrome}; do
  command -v "$name" >/dev/null && exit 0
done
[ -z "${TOOLHUB_TEST_CHROMIUM:-}" ] || fail "TOOLHUB_TEST_CHROMIUM: there is no $TOOLHUB_TEST_CHROMIUM"
command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] ||
  fail "no Chromium on PATH; install one (Debian: chromium), or name one in TOOLHUB_TEST_CHROMIUM"
echo "installing Chromium from Debian's packages; this takes a minute"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
{ apt-get install --yes --no-install-recommends chromium || { apt-get update && apt-get install --yes --no-install-recommends chromium; }; } \
  >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "Chromium could not be installed"; }
rm -f "$log"
