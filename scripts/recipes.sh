#!/bin/sh
# Installs what `make test-recipes` runs, for root on Debian. Elsewhere the tests of what is missing are skipped.
set -eu

missing=
for name in nginx haproxy caddy systemd-analyze logrotate curl openssl setpriv prometheus; do
  PATH=$PATH:/usr/sbin:/sbin command -v "$name" >/dev/null || missing="$missing $name"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
  echo "not on this machine:$missing; their tests are skipped"
  exit 0
fi
echo "installing from Debian's packages:$missing"
# In this runlevel no service is started.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
log=$(mktemp)
install() { apt-get install --yes --no-install-recommends nginx haproxy caddy systemd logrotate curl openssl util-linux prometheus; }
{ install || { apt-get update && install; }; } >"$log" 2>&1 || { tail -n 20 "$log"; echo "not installed; their tests are skipped"; }
rm -f "$log"
