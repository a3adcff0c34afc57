"""How long the admin's first page takes when the journal is long.

    python benchmarks/overview.py [--postgres URL] [--calls N]

Fills an empty database by SQL with N calls (a million) of 200 tools by 50 callers in thirty days, busy by day and quiet
at night, and with the figures that the journal would have written beside them; with 400 kinds of failures, half of
them open, 5,000 changes on record and 50 agents that are connected. Then opens the page for each of its periods, in
process: queries, view and template, without a network. One process for each database.
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

TOOLS, CALLERS, DAYS = 200, 50, 30
KINDS_OF_FAILURES, CHANGES, AGENTS = 400, 5_000, 50
# Of the calls that are drawn, so many are made: by night a fifth of them.
AWAKE = (13 + 11 / 5) / 24
ROUNDS = 11

# Numbers that look like chance and are the same every time. The square makes some tools and callers busier than others.
CALLS = """
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {calls}),
drawn AS (
  SELECT n,
    (n * 7919 % 10007) * (n * 7919 % 10007) / 100140049.0 AS tool,
    (n * 104729 % 9973) * (n * 104729 % 9973) / 99460729.0 AS caller,
    n * 15485863 % 9967 / 9967.0 AS fate,
    n * 32452843 % 9949 / 9949.0 AS length,
    n * {seconds} / {calls} AS ago
  FROM (SELECT CAST(n AS bigint) AS n FROM numbers) AS wide)
INSERT INTO tools_app_call ({columns})
SELECT {values} FROM drawn WHERE {awake}
"""
COLUMNS = {
    "id": "{hex}",
    "tool_name": "'tool_' || CAST(tool * {tools} AS integer)",
    "caller_id": "'key:' || CAST(caller * {callers} AS integer)",
    "caller_name": "'agent ' || CAST(caller * {callers} AS integer)",
    "status": "CASE WHEN fate < .03 THEN 'failed' WHEN fate < .035 THEN 'timeout' WHEN fate < .06 THEN 'refused' "
    "ELSE 'succeeded' END",
    "code": "CASE WHEN fate < .03 THEN 'API_ERROR' WHEN fate < .035 THEN 'TIMEOUT' "
    "WHEN fate < .06 THEN 'RATE_LIMIT_EXCEEDED' ELSE '' END",
    "started_at": "{moment}",
    "finished_at": "{moment}",
    "duration_ms": "CAST(3 + length * length * length * 4000 AS integer)",
    "result_bytes": "CAST(100 + length * 5000 AS integer)",
    "door": "'mcp'",
    "caller_kind": "'key'",
    **dict.fromkeys(("tool_version", "definition_hash", "error", "error_id", "arguments", "result_hash"), "''"),
    "argument_bytes": "40",
    "attempts": "1",
}
SUMS = """
SELECT {keys}, count(*), 0, sum(duration_ms), sum(result_bytes), {lengths}
FROM tools_app_call GROUP BY 1, 2, 3, 4, 5, 6
"""


def fill(calls: int) -> None:
    """Calls and their hours; the days are added up as the hub itself does it."""
    from django.db import connection, transaction
    from django.utils import timezone

    from tools_app.models.figures import DURATIONS
    from tools_app.models.figures import SUMS as COUNTED

    sqlite = connection.vendor == "sqlite"
    now, seconds = timezone.now(), DAYS * 86_400
    moment = (
        "strftime('%Y-%m-%d %H:%M:%f', '{now}', '-' || ago || ' seconds')"
        if sqlite
        else "timestamptz '{now}' - ago * interval '1 second'"
    ).format(now=f"{now:%Y-%m-%d %H:%M:%S}" + ("" if sqlite else "+00"))
    hour_of_day = f"CAST(strftime('%H', {moment}) AS integer)" if sqlite else f"extract(hour FROM {moment})"
    given = {
        "tools": TOOLS,
        "callers": CALLERS,
        "hex": "printf('%032x', n)" if sqlite else "lpad(to_hex(n), 32, '0')",
        "moment": moment,
    }
    known = {name: value.format(**given) for name, value in COLUMNS.items()}
    # By night a fifth of the calls, by day all of those that are drawn.
    insert = CALLS.format(
        calls=int(calls / AWAKE * 1.01), seconds=seconds, columns=", ".join(known), values=", ".join(known.values()),
        awake=f"{hour_of_day} BETWEEN 7 AND 19 OR n % 5 = 0",
    )  # fmt: skip
    lengths = [
        f"sum(CASE WHEN duration_ms > {low} AND duration_ms <= {high} THEN 1 ELSE 0 END)"
        for low, high in zip((-1, *DURATIONS), (*DURATIONS, 10**9), strict=True)
    ]
    hour = "strftime('%Y-%m-%d %H:00:00', started_at)" if sqlite else "date_trunc('hour', started_at)"
    keys = f"{hour}, tool_name, caller_id, caller_name, status, code"
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(insert)
        columns = "hour, tool_name, caller_id, caller_name, status, code"
        select = SUMS.format(keys=keys, lengths=", ".join(lengths))
        cursor.execute(f"INSERT INTO tools_app_callhour ({columns}, {', '.join(COUNTED)}) {select}")
    accompany()
    from tools_app.journal import retention

    for days in range(DAYS + 2):
        retention.add_up(now - timedelta(days=days))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def accompany() -> None:
    """What stands on the page beside the figures."""
    from django.utils import timezone

    from tools_app.models import Agent, AuditEntry, ErrorGroup, Process, ToolRecord

    now = timezone.now()
    tools = [f"tool_{number}" for number in range(TOOLS)]
    ToolRecord.objects.bulk_create(ToolRecord(name=name, folded_name=name, source_kind="file") for name in tools)
    ErrorGroup.objects.bulk_create(
        ErrorGroup(
            fingerprint=f"{number:032x}",
            tool_name=tools[number % TOOLS],
            code="API_ERROR",
            message=f"Failed {number}",
            count=number + 1,
            first_seen_at=now - timedelta(days=9),
            last_seen_at=now - timedelta(minutes=number * 7),
            resolved_at=now if number % 2 else None,
        )
        for number in range(KINDS_OF_FAILURES)
    )
    off = {"enabled": [True, False]}
    AuditEntry.objects.bulk_create(
        AuditEntry(actor="user:someone", action="tool.disable", subject=tools[number % TOOLS], changes=off)
        for number in range(CHANGES)
    )
    process = Process.objects.create(
        id="f" * 32, kind="serve", host="hub", pid=1, started_at=now, lease_until=now + timedelta(days=1)
    )
    Agent.objects.bulk_create(
        Agent(
            id=f"{number:032x}",
            process=process,
            door="stdio",
            era="handshake",
            client="some-client",
            caller_kind="key",
            caller_id=f"key:{number}",
            caller_name=f"agent {number}",
            since=now,
            seen_at=now,
        )
        for number in range(AGENTS)
    )


def measure() -> None:
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    from tools_app.models import Call, CallHour

    print(f"  {Call.objects.count():,} calls, {CallHour.objects.count():,} hours, {CallHour.sums.count():,} sums")
    browser = Client(headers={"host": "localhost"})
    browser.force_login(User.objects.create_superuser("measuring"), backend="django.contrib.auth.backends.ModelBackend")
    for since in ("1h", "24h", "7d", "30d"):
        browser.get("/admin/", {"since": since})
        taken, worked = [], []
        for _ in range(ROUNDS):
            begun, working = time.perf_counter(), time.process_time()
            page = browser.get("/admin/", {"since": since})
            taken.append((time.perf_counter() - begun) * 1000)
            worked.append((time.process_time() - working) * 1000)
        with CaptureQueriesContext(connection) as captured:
            browser.get("/admin/", {"since": since})
        database = sum(float(query["time"]) for query in captured) * 1000
        figures = f"median {statistics.median(taken):.0f} ms, {statistics.median(worked):.0f} ms of the processor"
        print(
            f"  {since:>4}: {figures}, {len(captured)} queries in {database:4.0f} ms, {len(page.content):,} bytes",
            flush=True,
        )


def run(calls: int) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "toolhub.settings"
    import django

    django.setup()
    from django.core.management import call_command

    from tools_app.sources import sync

    call_command("migrate", verbosity=0)
    sync.sync()
    fill(calls)
    measure()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgres", metavar="URL", help="an empty database of which to make use")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        run(given.calls)
        return
    for name, url in (("SQLite", ""), ("PostgreSQL", given.postgres)):
        if name == "SQLite" or url:
            print(name, flush=True)
            with tempfile.TemporaryDirectory() as home:
                environment = {**os.environ, "TOOLHUB_HOME": home, "LOG_LEVEL": "error"}
                if url:
                    environment["DATABASE_URL"] = url
                command = [sys.executable, __file__, "--inside", "--calls", str(given.calls)]
                subprocess.run(command, env=environment, check=True, cwd=CHECKOUT)


if __name__ == "__main__":
    main()
