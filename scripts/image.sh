#!/bin/sh
# Builds the image `toolhub` from the Containerfile and the wheel in dist/. Called by `make image`; arguments go to the
# build. ENGINE chooses the program; the image format of Docker keeps the health check.
set -eu
cd "$(dirname "$0")/.."

engine=${ENGINE:-}
for name in podman buildah docker; do
  [ -n "$engine" ] || ! command -v "$name" >/dev/null || engine=$name
done
[ -n "$engine" ] || { echo "there is no podman, buildah or docker on PATH; install one" >&2; exit 1; }

format=
[ "$(basename "$engine")" = docker ] || format="--format docker"
# shellcheck disable=SC2086 # no format is no argument
exec "$engine" build $format --file Containerfile --tag "${IMAGE:-toolhub}" "$@" .
