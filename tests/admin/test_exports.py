"""Lists as files: with their filters, bounded, safe for spreadsheets, and on record."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import AsyncClient
from django.utils import timezone

from tests.admin.conftest import VIEWS, call, error_group, failed_call
from tools_app import governance
from tools_app.admin import exports
from tools_app.admin.exports import safe_cell
from tools_app.base import database
from tools_app.models import AuditEntry, Call

# Real commits: the rows are read in other threads.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.anyio]

CALLS = "/admin/tools_app/call/export/"


def auditor(*permissions: str) -> AsyncClient:
    user = User.objects.create_user("auditor", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=(*VIEWS, *permissions)))
    client = AsyncClient()
    client.force_login(user)
    return client


async def taken(client: AsyncClient, address: str) -> bytes:
    """The file behind an address."""
    response: Any = await client.get(address)
    assert response.status_code == 200, response.content
    assert "attachment" in response.headers["Content-Disposition"]
    assert "no-store" in response.headers["Cache-Control"]
    return b"".join([part async for part in response.streaming_content])


async def made(**given: Any) -> Call:
    return await database.run(lambda: call(**given))


def cells(file: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.decode())))


async def test_calls_are_taken_along_with_their_filters() -> None:
    client = await database.run(auditor)
    wanted = await made(tool="echo", queued_ms=2)
    await made(tool="calculate")
    [row] = cells(await taken(client, f"{CALLS}?tool=echo&format=csv"))
    assert (row["id"], row["tool"], row["queuedMs"], row["caller"]) == (wanted.pk, "echo", "2", "agent")
    assert "arguments" not in row
    told = json.loads(await taken(client, f"{CALLS}?format=json"))
    assert {row["tool"] for row in told["rows"]} == {"echo", "calculate"}
    assert told["complete"] is True
    assert told["rows"][0]["started"].endswith("+00:00")


async def test_a_search_is_taken_along_newest_first_however_the_list_was_sorted() -> None:
    client = await database.run(auditor)
    for tool, ago in (("first", 3), ("second", 2), ("third", 1)):
        moment = timezone.now() - timedelta(hours=ago)
        await database.run(partial(failed_call, tool, moment, message="The tracker said no"))
    await made(tool="other")
    taken_rows = json.loads(await taken(client, f"{CALLS}?q=tracker&o=-5&format=json"))
    assert [row["tool"] for row in taken_rows["rows"]] == ["third", "second", "first"]
    assert taken_rows["complete"]


async def test_issues_are_taken_along_with_state_reason_and_assignee() -> None:
    client = await database.run(auditor)

    def decide() -> None:
        group = error_group("echo")
        User.objects.create_superuser("olga")
        trusted = governance.trusted("test")
        governance.assign_errors([group.pk], "olga", actor=trusted)
        governance.ignore_errors([group.pk], actor=trusted, reason="=1+1", occurrences=5)

    await database.run(decide)
    issues = "/admin/tools_app/errorgroup/export/?state=ignored"
    [row] = cells(await taken(client, f"{issues}&format=csv"))
    assert (row["state"], row["assignee"], row["muteReason"]) == ("ignored", "olga", "'=1+1")
    assert row["mutedUntilCount"] == "6"
    [told] = json.loads(await taken(client, f"{issues}&format=json"))["rows"]
    assert (told["state"], told["assignee"], told["mutedUntil"]) == ("ignored", "olga", None)


async def test_every_row_comes_once_and_no_more_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    client = await database.run(auditor)
    moment = timezone.now()
    for number in range(7):
        # Two of them began at the same time.
        await made(started_at=moment - timedelta(seconds=number // 2))
    monkeypatch.setattr(exports, "AT_ONCE", 3)
    everything = json.loads(await taken(client, f"{CALLS}?format=json"))
    ids = [row["id"] for row in everything["rows"]]
    assert (len(ids), len(set(ids)), everything["complete"]) == (7, 7, True)
    monkeypatch.setattr(exports, "MOST_ROWS", 5)
    newest = json.loads(await taken(client, f"{CALLS}?format=json"))
    assert ([row["id"] for row in newest["rows"]], newest["complete"]) == (ids[:5], False)
    assert len(cells(await taken(client, CALLS))) == 5


async def test_an_empty_list_is_an_empty_file() -> None:
    client = await database.run(auditor)
    assert cells(await taken(client, CALLS)) == []
    assert json.loads(await taken(client, f"{CALLS}?format=json"))["rows"] == []


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
async def test_no_cell_is_calculated(start: str) -> None:
    client = await database.run(auditor)
    text = f'{start}HYPERLINK("x"),2'
    await made(caller_name=text, status="failed", error=text)
    [row] = cells(await taken(client, CALLS))
    assert row["caller"] == row["error"] == f"'{text}"
    assert json.loads(await taken(client, f"{CALLS}?format=json"))["rows"][0]["caller"] == text


def cells_by_semicolons(line: str) -> list[str]:
    """As a spreadsheet has them that goes by semicolons: quotes count only where a cell begins with one."""
    return [cell for row in line.splitlines() for cell in row.split(";")]


@pytest.mark.parametrize("sign", [*"=+-@", *"\uff1d\uff0b\uff0d\uff20"])
@pytest.mark.parametrize("before", ["", " ", "a;", "a; ", 'a;"', "a\n", "a\r\n", "a\t", "\n", "\t;"])
def test_no_cell_is_calculated_wherever_one_begins(before: str, sign: str) -> None:
    written = exports.line("x", f"{before}{sign}1+1").decode()
    read = [cell for row in csv.reader(io.StringIO(written)) for cell in row]
    for cell in (*read, *cells_by_semicolons(written)):
        for part in cell.split("\t"):
            assert not part.strip(' "\r\n').startswith(sign), (written, part)


def test_what_is_no_formula_stays_as_it_is() -> None:
    for text in ("a-b", "1 + 1", "a@b.example", "x; y", "日本語;\nnext line", '{"a": -1}', ""):
        assert safe_cell(text) == text


def test_numbers_stay_numbers() -> None:
    assert [safe_cell(value) for value in (-1, None, True, "-1", ["="])] == ["-1", "", "True", "'-1", '["="]']


async def test_payloads_need_their_permission_and_are_on_record() -> None:
    client = await database.run(auditor)
    await made(arguments='{"salary": 4321}')
    assert (await client.get(f"{CALLS}?payloads=1")).status_code == 403
    assert b"4321" not in await taken(client, CALLS)
    plain = await database.run(AuditEntry.objects.get)
    assert (plain.action, plain.subject, plain.actor) == ("list.export", "list:calls", "user:auditor")
    assert plain.changes["payloads"] is False

    await database.run(User.objects.all().delete)
    reader = await database.run(auditor, "view_payload")
    [row] = cells(await taken(reader, f"{CALLS}?payloads=1&tool=echo"))
    assert row["arguments"] == '{"salary": 4321}'
    entry = await database.run(AuditEntry.objects.order_by("-pk").first)
    assert entry is not None
    assert entry.changes == {"payloads": True, "filters": "tool=echo"}


async def test_the_other_lists_can_be_taken_along_too() -> None:
    client = await database.run(auditor)
    _, error = await database.run(lambda: failed_call("echo", group=error_group("echo")))
    for model, name in (("errorlog", "message"), ("errorgroup", "message"), ("auditentry", "action")):
        file = await taken(client, f"/admin/tools_app/{model}/export/?format=json")
        assert json.loads(file)["rows"][0][name], model
        assert error.detail not in file.decode()


async def test_what_cannot_be_is_refused() -> None:
    client = await database.run(auditor)
    assert (await client.get(f"{CALLS}?format=xml")).status_code == 400
    assert (await client.post(CALLS)).status_code == 405
    for query, status in (("state=all", 400), ("started_at__gte=never", 400), ("tool=%00", 302)):
        assert (await client.get(f"{CALLS}?{query}")).status_code == status, query
    assert (await client.get("/admin/tools_app/process/export/")).status_code in (302, 404)


async def test_what_is_recorded_of_a_key_is_exported_from_its_page() -> None:
    client = await database.run(lambda: auditor("view_apikey", "view_payload"))
    key = await database.run(lambda: governance.create_key("alice", actor=governance.trusted("test"))[0])
    await made(caller_id=f"key:{key.pk}", arguments='{"message": "hello"}')
    await made(caller_id="key:99", arguments='{"message": "other"}')
    address = f"/admin/tools_app/apikey/{key.pk}/"
    shown: Any = await client.get(f"{address}change/")
    assert "Export records" in shown.content.decode()
    response: Any = await client.post(f"{address}export/", {"reason": "it leaked"})
    assert f'filename="key-{key.prefix}-' in response.headers["Content-Disposition"]
    text = b"".join([part async for part in response.streaming_content]).decode()
    head, *own, last = map(json.loads, text.splitlines())
    assert head["export"]["key"]["name"] == "alice"
    assert [one["arguments"] for one in own if one["kind"] == "calls"] == ['{"message": "hello"}']
    assert last["complete"] is True
    entry = await AuditEntry.objects.aget(action="caller.export")
    assert (entry.actor, entry.subject, entry.reason) == ("user:auditor", f"key:{key.pk}", "it leaked")


async def test_exporting_a_key_needs_the_permission_to_see_keys() -> None:
    user = await database.run(lambda: User.objects.create_user("nosy", is_staff=True))
    client = AsyncClient()
    await database.run(lambda: client.force_login(user))
    key = await database.run(lambda: governance.create_key("alice", actor=governance.trusted("test"))[0])
    response: Any = await client.post(f"/admin/tools_app/apikey/{key.pk}/export/")
    assert response.status_code == 403
    assert not await AuditEntry.objects.filter(action="caller.export").aexists()
