#!/bin/sh
# Brings .venv to what a lock file says, and does nothing when it is there already. Called by the Makefile.
#   usage: scripts/install.sh run|dev|browser
# dev holds everything that run holds, and browser everything that dev holds. PYTHON chooses the interpreter; UV=no leaves uv out even when it is there.
set -eu
cd "$(dirname "$0")/.."

venv=.venv
py=$venv/bin/python
lock=requirements.lock
[ "$1" = run ] || lock=requirements-$1.lock

fail() { echo "toolhub: $*" >&2; exit 1; }
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# A .venv that works stays, unless it was moved here from elsewhere, or PYTHON asks for another version.
if ! new_enough $py || [ "$(cat $venv/made-in 2>/dev/null)" != "$(pwd)" ] ||
  { [ -n "${PYTHON:-}" ] && [ "$(version $py)" != "$(version "$PYTHON")" ]; }; then
  python=${PYTHON:-python3}
  command -v "$python" >/dev/null || fail "no $python on PATH; install Python 3.11 or newer, or name one: make PYTHON=python3.12"
  new_enough "$python" || fail "$python is $("$python" --version 2>&1), and 3.11 or newer is needed; name one: make PYTHON=python3.12"
  echo "making $venv with $("$python" --version 2>&1)"
  "$python" -m venv --clear --without-pip $venv || fail "$python cannot make a virtual environment; install its venv module (Debian: python3-venv)"
  pwd > $venv/made-in
fi

if ! cmp -s $lock "$venv/installed-$1.lock"; then
  rm -f $venv/installed-*.lock
  uv=${UV:-uv}
  if command -v "$uv" >/dev/null; then
    echo "installing $lock into $venv with uv"
    "$uv" pip install --quiet --python $py --compile-bytecode --require-hashes -r $lock
  else
    if ! $py -m pip --version >/dev/null 2>&1; then
      $py -c 'import ensurepip' 2>/dev/null || fail "this Python has no ensurepip; install its venv module (Debian: python3-venv) or put uv on PATH"
      $py -m ensurepip --default-pip >/dev/null
    fi
    echo "installing $lock into $venv with pip; the first time this takes a minute"
    $py -m pip install --quiet --quiet --disable-pip-version-check --no-input --require-hashes -r $lock
  fi

  # `.venv/bin/toolhub` works from every directory: MCP clients start it from their own.
  pwd > "$($py -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/toolhub-checkout.pth"
  printf '#!/bin/sh\nexec "%s/%s" -P -m toolhub "$@"\n' "$(pwd)" $py > $venv/bin/toolhub
  chmod +x $venv/bin/toolhub

  [ "$1" = run ] || cp requirements.lock $venv/installed-run.lock
  [ "$1" = browser ] && cp requirements-dev.lock $venv/installed-dev.lock
  cp $lock "$venv/installed-$1.lock"
fi

# Our own modules as bytecode too: an environment with PYTHONDONTWRITEBYTECODE would compile them at every start.
$py -m compileall -q toolhub tools_app
