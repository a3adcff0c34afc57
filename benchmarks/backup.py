"""How long a backup of a large hub takes beside its callers, how long the restore, and whether anything differs.

    python benchmarks/backup.py [--postgres URL] [--calls N]

Fills an empty hub by SQL with N calls (a million), as benchmarks/overview.py does. Serves it, lets eight callers
call a tool as fast as they are answered, first alone, then beside `toolhub backup`. Then restores a backup into an
empty home, and compares every row of every table that a restore does not write. `--postgres` names a server on which
databases can be created.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from tests.support import stores  # noqa: E402
from tests.support.processes import Home, Server, key_in  # noqa: E402
from tests.support.stores import Store  # noqa: E402

CALLERS, ALONE_SECONDS, LONGEST = 8, 20, 900
FILL = """
import sys
sys.path.insert(0, {benchmarks!r})
import django
django.setup()
import overview
overview.fill({calls})
"""
# Written by a restore, or by the hub that runs it.
IGNORED = {
    *("tools_app_approval", "tools_app_auditentry", "tools_app_chore", "tools_app_revision", "tools_app_stop"),
    *("tools_app_process", "tools_app_agent", "django_session"),
}
TABLES = """
import django, json
django.setup()
from django.db import connection
from pathlib import Path
from tools_app.setup.backup import postgres, tables
found = postgres.contents() if connection.vendor == "postgresql" else tables.of_sqlite(Path({path!r}))
print(json.dumps({{name: [table.rows, table.hash] for name, table in found.items()}}))
"""


class Callers:
    """Eight of them, each with a connection; they note how long every call took, and when it ended."""

    def __init__(self, server: Server, key: str) -> None:
        self.times: list[tuple[float, float]] = []
        self.failures = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(server.port, key)) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _call(self, port: int, key: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"name": "echo", "parameters": {"message": "hello"}})
        headers = {"Content-Type": "application/json", "X-API-Key": key}
        while not self._stop.is_set():
            begun = time.monotonic()
            connection.request("POST", "/v1/tools/call", body, headers)
            response = connection.getresponse()
            response.read()
            self.failures += response.status != 200
            self.times.append((time.monotonic(), time.monotonic() - begun))
        connection.close()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def report(self, what: str, begun: float, ended: float) -> float:
        """Prints the figures of a period. Returns the 99th percentile."""
        taken = sorted(seconds * 1000 for at, seconds in self.times if begun <= at <= ended)
        percentile = taken[int(len(taken) * 0.99)]
        figures = f"median {statistics.median(taken):.1f} ms, p99 {percentile:.1f} ms, longest {taken[-1]:.0f} ms"
        print(f"  {what}: {len(taken) / (ended - begun):,.0f} calls/s, {figures}", flush=True)
        return percentile


@contextlib.contextmanager
def empty(folder: Path, server: str | None) -> Iterator[tuple[Home, Store]]:
    folder.mkdir()
    common = {
        "LOG_LEVEL": "error",
        "TOOLHUB_BACKUP_PASSPHRASE": "a passphrase for measuring",
        "TOOLHUB_RATE_CALLS": "0",
        "TOOLHUB_KEY_RATE_CALLS": "0",
    }
    if server is None:
        yield Home(folder, common), stores.SQLiteStore(folder / "toolhub.sqlite3")
        return
    with stores.created(server) as store:
        yield Home(folder, {**common, **store.environment}), store


def timed(home: Home, *arguments: str) -> float:
    begun = time.monotonic()
    command = [sys.executable, "-m", "toolhub", *arguments]
    done = subprocess.run(
        command, env=home.environment, capture_output=True, text=True, timeout=LONGEST, check=False, cwd=CHECKOUT.anchor
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    print("    " + done.stdout.strip().splitlines()[-1], flush=True)
    return time.monotonic() - begun


def contents(home: Home) -> dict[str, tuple[int, str]]:
    environment = {**home.environment, "DJANGO_SETTINGS_MODULE": "toolhub.settings"}
    program = TABLES.format(path=str(home.database))
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    found: dict[str, tuple[int, str]] = json.loads(done.stdout)
    return {name: table for name, table in found.items() if name not in IGNORED}


def measure(folder: Path, calls: int, server: str | None) -> None:
    with empty(folder / "home", server) as (home, _), empty(folder / "restored", server) as (new_home, _):
        key = key_in(home.run("addkey", "measuring").stdout)
        program = FILL.format(benchmarks=str(CHECKOUT / "benchmarks"), calls=calls)
        environment = {**home.environment, "DJANGO_SETTINGS_MODULE": "toolhub.settings"}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True)
        if server is None:
            print(f"  {home.database.stat().st_size / 1e6:,.0f} MB", flush=True)
        beside(home, key, folder, is_sqlite=server is None)
        # Compared with a backup of a hub that does not run: of the other one, calls went on.
        print(f"  backup of a hub without callers: {timed(home, 'backup', str(folder / 'quiet')):.1f} s")
        print(f"  {(folder / 'quiet').stat().st_size / 1e6:,.0f} MB in the file")
        print(f"  restore: {timed(new_home, 'restore', str(folder / 'quiet'), '--keys-as-of-backup'):.1f} s")
        before, after = contents(home), contents(new_home)
        found = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
        print(f"  {sum(rows for rows, _ in before.values()):,} rows compared: {len(found)} tables differ {found or ''}")


def beside(home: Home, key: str, folder: Path, *, is_sqlite: bool) -> None:
    """The backup beside the callers."""
    largest = 0
    with home.serving() as server:
        callers = Callers(server, key)
        try:
            time.sleep(3)
            begun = time.monotonic()
            time.sleep(ALONE_SECONDS)
            alone = callers.report("alone", begun, time.monotonic())
            command = [sys.executable, "-m", "toolhub", "backup", str(folder / "busy")]
            begun = time.monotonic()
            process = subprocess.Popen(command, env=home.environment, stdout=subprocess.DEVNULL, cwd=CHECKOUT.anchor)
            while process.poll() is None:
                time.sleep(0.1)
                if is_sqlite:
                    with contextlib.suppress(FileNotFoundError):
                        largest = max(largest, Path(f"{home.database}-wal").stat().st_size)
            ended = time.monotonic()
            during = callers.report("beside a backup", begun, ended)
        finally:
            callers.stop()
        if process.returncode:
            raise SystemExit("the backup failed")
        print(
            f"  backup beside {CALLERS} callers: {ended - begun:.1f} s, p99 {during / alone:.1f} times that of before"
        )
        print(f"  {callers.failures} calls failed" + (f"; WAL at most {largest / 1e6:,.0f} MB" if is_sqlite else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", metavar="URL", help="a server on which to create databases")
    parser.add_argument("--only-postgres", action="store_true", help="leave out SQLite")
    parser.add_argument("--calls", type=int, default=1_000_000)
    options = parser.parse_args()
    runs = [] if options.only_postgres else [("SQLite", None)]
    for name, server in [*runs, *([("PostgreSQL", options.postgres)] if options.postgres else [])]:
        print(name, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), options.calls, server)


if __name__ == "__main__":
    main()
