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
from datetime import timedelta
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
# Words that half of the calls have, some dozens, or one; and the id of an item.
ARGUMENTS = (
    "'{{\"query\":\"orders of customer ' || (n % 977) || ' in ' || CASE n % 4 WHEN 0 THEN 'Berlin' WHEN 1 THEN 'Osaka' "
    "WHEN 2 THEN '東京都' ELSE 'Paris' END || '\",\"limit\":' || (n % 50) || ',\"item\":' || n || "
    'CASE WHEN n % 20011 = 0 THEN \',"note":"a needle in a haystack"}}\' ELSE \',"order":"newest first"}}\' END'
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
    "an argument of every call": "q=orders of customer&in=arguments",
    "an argument of some calls": "q=customer 97 in&in=arguments",
    "a rare argument": "q=needle in a hay&in=arguments",
    "an argument of one call": 'q="item":123457,&in=arguments',
    "an argument that does not exist": "q=nothing like this&in=arguments",
    "… but all of its parts do": "q=customer in newest first&in=arguments",
    "an argument in Japanese": "q=東京都&in=arguments",
    "a frequent argument of failed calls": "q=newest first&in=arguments&status=failed",
    "a frequent argument of the last 24 hours": "q=newest first&in=arguments&since=24h",
    "two characters": "q=te&in=arguments",
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
        overview.COLUMNS["arguments"] = ARGUMENTS
        overview.fill(calls)
        index()
    measure()


def index() -> None:
    """As the journal does it, without the pauses between two steps."""
    from django.db import connection
    from django.utils import timezone

    from tools_app.journal import texts
    from tools_app.models import CallText, Chore

    Chore.objects.create(name=texts.CHORE, done_at=timezone.now() - timedelta(days=400))
    started, working, steps = time.perf_counter(), time.process_time(), []
    while True:
        began = time.perf_counter()
        is_more = texts.read_older(timezone.now())
        steps.append((time.perf_counter() - began) * 1000)
        if not is_more:
            break
    number = CallText.objects.count()
    elapsed, working = time.perf_counter() - started, time.process_time() - working
    slow = sorted(steps)[len(steps) * 99 // 100]
    each = f"{elapsed / number * 1e6:.0f} µs each, {working / number * 1e6:.0f} of this process's processor"
    print(f"  {number:,} texts indexed: {each}; a step: median {statistics.median(steps):.0f} ms, 99 % {slow:.0f} ms")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


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
