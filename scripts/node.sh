#!/bin/sh
# Brings tests/node/node_modules to what tests/node/package.json says, and does nothing when it is there already.
# Needs npm, of any age: the Node.js that runs the tests is one of the packages.
set -eu
cd "$(dirname "$0")/../tests/node"

fail() { echo "toolhub: $*" >&2; exit 1; }

cmp -s package.json node_modules/installed.json && exit 0
command -v npm >/dev/null ||
  fail "no npm on PATH; install Node.js (Debian: npm), or go without: 'make test-mcp' then leaves out what needs it"
echo "installing tests/node/package.json with npm $(npm --version); this takes half a minute"
rm -rf node_modules
npm install --no-package-lock --no-audit --no-fund --no-update-notifier --loglevel=error
node_modules/node/bin/node --version >/dev/null 2>&1 || fail "the Node.js that npm fetched does not run on this machine"
cp package.json node_modules/installed.json
