#!/usr/bin/env bash
# Installs (once, apt), starts (if not running) and seeds (once) a REAL Redmine 5.0 on 127.0.0.1.  Idempotent.  Needs root (apt).
#
# Environment (all optional):
#   TOOLHUB_REAL_HOME     where everything is kept                 default: .real in the checkout
#   REDMINE_PORT          default 3080; the Redmine "instance" is named toolhub<port>, so several can run side by side
#   REDMINE_THREADS       default 1:1.  With more, parallel writes on sqlite answer 500 now and then ("database is locked")
#   SEED_LOGIN_REQUIRED=1 anonymous visitors see nothing (default 0: public projects are readable without a key)
#   SEED_REST_API=0       switch the REST API off (to see what a client gets then)
# Result: KEY=VALUE lines in $TOOLHUB_REAL_HOME/run/redmine-$REDMINE_PORT/redmine.env   (mode 600)
set -euo pipefail
KIT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
HOME_DIR=${TOOLHUB_REAL_HOME:-$KIT/../../../.real}
mkdir -p "$HOME_DIR"; HOME_DIR=$(cd "$HOME_DIR" && pwd)
PORT=${REDMINE_PORT:-3080}
RUN=$HOME_DIR/run/redmine-$PORT
INSTANCE=toolhub$PORT
log() { echo "[redmine] $*" >&2; }
now() { date +%s%N; }
ms() { echo $(( ($(now) - $1) / 1000000 )); }

# ---- 1. packages (no web server, no database server, no debconf questions)
if ! dpkg -s redmine redmine-sqlite puma >/dev/null 2>&1; then
  t=$(now); mkdir -p "$HOME_DIR/run"
  export DEBIAN_FRONTEND=noninteractive
  command -v debconf-set-selections >/dev/null && echo "redmine redmine/instances/default/dbconfig-install boolean false" | debconf-set-selections
  apt-get update >"$HOME_DIR/run/apt.log" 2>&1
  apt-get install -y --no-install-recommends redmine redmine-sqlite puma >>"$HOME_DIR/run/apt.log" 2>&1 || { tail -20 "$HOME_DIR/run/apt.log" >&2; exit 1; }
  log "apt packages installed in $(ms "$t") ms"
fi

ROOT=${REDMINE_ROOT:-$(dirname "$(dpkg -L redmine | grep '/config\.ru$')")}

# ---- 2. an instance of our own: Debian's Redmine serves instances/<name>, a link to our directory is enough
mkdir -p "$RUN"/{config,log,files,tmp,db,public/plugin_assets}; chmod 700 "$RUN"
[ -s "$RUN/config/secret_key.txt" ] || ( umask 077; head -c 48 /dev/urandom | od -An -tx1 | tr -d ' \n' > "$RUN/config/secret_key.txt" )
cat > "$RUN/config/database.yml" <<YML
production:
  adapter: sqlite3
  database: $RUN/db/redmine.sqlite3
  timeout: 15000
  encoding: utf8
YML
ln -sfn "$RUN" "$ROOT/instances/$INSTANCE"
export REDMINE_INSTANCE=$INSTANCE RAILS_ENV=production REDMINE_LANG=en SCHEMA="$RUN/tmp/schema.rb"
cd "$ROOT"
if [ ! -e "$RUN/.migrated" ]; then
  t=$(now)
  ruby bin/rake db:migrate >"$RUN/log/migrate.log" 2>&1 || { tail -20 "$RUN/log/migrate.log" >&2; exit 1; }
  ruby bin/rake redmine:load_default_data >>"$RUN/log/migrate.log" 2>&1 || { tail -20 "$RUN/log/migrate.log" >&2; exit 1; }
  touch "$RUN/.migrated"; log "database made in $(ms "$t") ms"
fi
t=$(now)
SEED_OUT="$RUN/seed.env" SEED_HOST="127.0.0.1:$PORT" ruby bin/rails runner -e production "$KIT/seed.rb" >"$RUN/log/seed.log" 2>&1 || { tail -20 "$RUN/log/seed.log" >&2; exit 1; }
log "seeded in $(ms "$t") ms"

# ---- 3. start
alive() { local p; [ -s "$RUN/puma.pid" ] && p=$(cat "$RUN/puma.pid") && [ -e "/proc/$p/status" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$p/status"; }   # a zombie is not alive
ready() { curl -fsS -m 5 -o /dev/null "http://127.0.0.1:$PORT/login" 2>/dev/null; }
if ! alive; then
  t=$(now)
  setsid nohup puma -C /dev/null -b "tcp://127.0.0.1:$PORT" -t "${REDMINE_THREADS:-1:1}" -e production config.ru >"$RUN/log/puma.log" 2>&1 &
  echo $! > "$RUN/puma.pid"
  for _ in $(seq 1 240); do ready && break; alive || { tail -20 "$RUN/log/puma.log" >&2; exit 1; }; sleep 0.25; done
  ready || { echo "Redmine is not ready" >&2; tail -20 "$RUN/log/puma.log" >&2; exit 1; }
  log "started in $(ms "$t") ms, RSS $(( $(awk '/VmRSS/{print $2}' "/proc/$(cat "$RUN/puma.pid")/status") / 1024 )) MB"
fi
( umask 077; { echo "REDMINE_URL=http://127.0.0.1:$PORT"; cat "$RUN/seed.env"; echo "REDMINE_PID=$(cat "$RUN/puma.pid")"; } > "$RUN/redmine.env" )
echo "$RUN/redmine.env"
