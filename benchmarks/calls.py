"""How long the list of calls takes to answer a search when the journal is long.

    python benchmarks/calls.py [--postgres URL] [--calls N] [--home DIRECTORY]

Fills an empty database as `overview.py` does, with error texts, and opens the list in process: queries, view and
template, without a network. `--home` keeps the SQLite database, and uses it again.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
# Not the directory of the benchmarks: there is another mcp in it.
sys.path[0] = str(CHECKOUT)

ROUNDS = 7
# 6 of 100 calls have an error text: most say the same, each names another item, and a few say something rare.
ERROR = (
    "CASE WHEN fate >= .06 THEN '' WHEN n % 20011 = 0 THEN 'The search engine asked for a captcha' "
    "ELSE 'The tracker answered 500 for item ' || n END"
)
ADDRESSES = {
    "no search": "",
    "a tool": "q=tool_7",
    "100 tools": "q=tool_1",
    "every caller": "q=agent",
    "a caller": "q=agent 49",
    "a code": "q=TIMEOUT",
    "a frequent error text": "q=tracker answered",
    "a rare error text": "q=captcha",
    "an error text that does not exist": "q=nothing like this",
    "… among failed calls": "q=nothing like this&status=failed",
    "… of the last 24 hours": "q=nothing like this&since=24h",
    "a tool, failed, of the last 24 hours": "q=tool_7&status=failed&since=24h",
    "a call id": "q=000000000000000000000000000f0000",
    "by duration": "o=-5",
    "a tool, by duration": "q=tool_7&o=-5",
}


def measure() -> None:
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from tools_app.models import Call

    print(
        f"  {Call.objects.count():,} calls, {Call.objects.exclude(error='').count():,} with an error text", flush=True
    )
    browser = Client(headers={"host": "localhost"})
    user = User.objects.filter(username="measuring").first() or User.objects.create_superuser("measuring")
    browser.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    for words, query in ADDRESSES.items():
        url = f"/admin/tools_app/call/?{query}"
        browser.get(url)
        times, processor = [], []
        for _ in range(ROUNDS):
            started, working = time.perf_counter(), time.process_time()
            response = browser.get(url)
            times.append((time.perf_counter() - started) * 1000)
            processor.append((time.process_time() - working) * 1000)
        with CaptureQueriesContext(connection) as captured:
            browser.get(url)
        database = sum(float(one["time"]) for one in captured) * 1000
        rows = response.content.count(b"data-row")
        figures = f"median {statistics.median(times):4.0f} ms, {statistics.median(processor):4.0f} ms of the processor"
        print(f"  {words:<38} {figures}; {rows} rows, {len(captured)} queries in {database:4.0f} ms", flush=True)


def run(calls: int) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "toolhub.settings"
    import django

    django.setup()
    from django.core.management import call_command

    from benchmarks import overview
    from tools_app.models import Call
    from tools_app.sources import sync

    call_command("migrate", verbosity=0)
    if not Call.objects.exists():
        sync.sync()
        overview.COLUMNS["error"] = ERROR
        overview.fill(calls)
    measure()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", metavar="URL", help="an empty database to use")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--home", metavar="DIRECTORY", type=Path)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        run(options.calls)
        return
    for name, url in (("SQLite", ""), ("PostgreSQL", options.postgres)):
        if name == "SQLite" or url:
            print(name, flush=True)
            with tempfile.TemporaryDirectory() as directory:
                home = str(options.home or directory)
                environment = {**os.environ, "TOOLHUB_HOME": home, "LOG_LEVEL": "error"}
                if url:
                    environment["DATABASE_URL"] = url
                command = [sys.executable, __file__, "--inside", "--calls", str(options.calls)]
                subprocess.run(command, env=environment, check=True, cwd=CHECKOUT)


if __name__ == "__main__":
    main()
