"""The calls on record, and who may see which."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from tests.api.conftest import MakeKey
from tests.api.rest import TIMESTAMP, Rest, check_form, failure
from tests.retention import rows
from tests.retention.rows import NOW
from tests.support.tools import Programmable
from tools_app import governance
from tools_app.models import ApiKey, Call
from tools_app.sdk.errors import ApiError

FILTERS = ["tool=echo", "status=failed", "code=TIMEOUT", "door=rest", "since=2026-01-01T00:00:00Z"]
WRONG = [
    *((f"limit={value}", "/limit") for value in ("0", "101", "-1", "abc", "1e1", "9" * 5000)),
    *((f"{name}={value}", f"/{name}") for name in ("since", "until") for value in (
        "", "now", "2026", "2026-01-01", "1767225600", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z",
        "2026-01-01T25:00:00Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00%2B23:59", "9999-12-31T23:59:59-23:59",
        "2026-01-01%2000:00:00Z", "-2026-01-01T00:00:00Z",
    )),
    ("status=lost", "/status"),
    ("status=SUCCEEDED", "/status"),
    ("door=back", "/door"),
    ("tool=" + "x" * 65, "/tool"),
    ("tool=", "/tool"),
    ("tool__startswith=e", "/tool__startswith"),
    ("arguments=x", "/arguments"),
    ("page=1", "/page"),
    ("cursor=", "/cursor"),
]  # fmt: skip


@pytest.fixture
def me(rest: Rest) -> str:
    """The id under which the calls of this client's key are on record."""
    return f"key:{ApiKey.objects.get(name='alice').pk}"


@pytest.fixture
def root(make_key: MakeKey) -> str:
    return make_key("root", scopes=["admin:*"])


def ids(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    told = response.json()
    check_form("CallPage", told)
    return [one["id"] for one in told["calls"]]


def walk(rest: Rest, query: str) -> Iterator[list[str]]:
    """Page after page."""
    cursor = ""
    while True:
        told = rest.get(f"/v1/calls?{query}{cursor}").json()
        yield [one["id"] for one in told["calls"]]
        if told["nextCursor"] is None:
            return
        cursor = f"&cursor={told['nextCursor']}"


def test_a_call_is_shown_to_who_made_it(rest: Rest, me: str, programmable: Programmable) -> None:
    programmable.outcomes = [ApiError("The tracker said no")]
    call_id = rest.call("programmable", {"text": "hello"}).json()["callId"]

    (listed,) = rest.get("/v1/calls").json()["calls"]
    shown = rest.get(f"/v1/calls/{call_id}").json()

    check_form("CallDetail", shown)
    assert {name: shown[name] for name in listed} == listed
    assert listed["caller"] == {"kind": "key", "id": me, "name": "alice"}
    assert (listed["id"], listed["tool"], listed["status"]) == (call_id, "programmable", "failed")
    assert (listed["code"], listed["error"], listed["door"]) == ("API_ERROR", "The tracker said no", "rest")
    assert (listed["attempts"], listed["count"], listed["answeredBy"]) == (1, 1, None)
    assert TIMESTAMP.fullmatch(listed["startedAt"])
    assert TIMESTAMP.fullmatch(listed["finishedAt"])
    assert "arguments" not in listed
    assert shown["arguments"] == '{"text":"hello","value":0}'
    assert (shown["result"], shown["resultHash"]) == (None, None)


def test_any_key_sees_its_own_calls_and_no_others(rest: Rest, me: str, make_key: MakeKey) -> None:
    own = rows.call(caller_id=me)
    rows.call(caller_id="key:999")
    rows.call(caller_id="local:alice", caller_kind="local")
    bare = make_key("bare", scopes=[])

    assert ids(rest.get("/v1/calls")) == [own.id]
    assert ids(rest.get(f"/v1/calls?caller={me}")) == [own.id]
    assert ids(rest.get("/v1/calls", key=bare)) == []
    told = failure(rest.get("/v1/calls?caller=key:999"), 403, "AUTHORIZATION_ERROR")
    assert told["context"] == {"requiredScope": "admin:*"}


def test_calls_of_others_and_unknown_calls_get_the_same_error(rest: Rest, me: str) -> None:
    other = rows.call(caller_id="key:999")

    answers = [
        failure(rest.get(f"/v1/calls/{call_id}"), 404, "NOT_FOUND")
        for call_id in (other.id, "f" * 32, "1", "%00", "x" * 5000, "..", "%F0%9F%98%80", "'--")
    ]

    for told in answers:
        del told["timestamp"]
    assert all(told == answers[0] for told in answers)
    assert answers[0]["error"] == "There is no such call"


def test_a_key_without_content_access_sees_all_calls_without_their_content(rest: Rest, me: str, root: str) -> None:
    older, newer = rows.call(caller_id=me), rows.call(NOW + timedelta(seconds=1), caller_id="key:999")

    assert ids(rest.get("/v1/calls", key=root)) == [newer.id, older.id]
    assert ids(rest.get("/v1/calls?caller=key:999", key=root)) == [newer.id]
    shown = rest.get(f"/v1/calls/{older.id}", key=root).json()
    assert shown["id"] == older.id
    assert not {"arguments", "result"} & shown.keys()
    assert rest.get(f"/v1/calls/{older.id}").json()["result"] == '{"message": "hi"}'


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tool=echo", "ab"),
        ("tool=calculate", "c"),
        ("status=failed", "b"),
        ("code=TIMEOUT", "b"),
        ("door=mcp", "c"),
        ("since=2026-03-01T12:00:01Z", "bc"),
        ("until=2026-03-01T12:00:01Z", "a"),
        ("since=2026-03-01T14:00:01%2B02:00&until=2026-03-01T12:00:01.5Z", "b"),
        ("tool=echo&status=succeeded", "a"),
        ("tool=%25", ""),
        ("tool=%00", ""),
        ("code=_IMEOUT", ""),
        ("since=2026-03-02T00:00:00Z&until=2026-03-01T00:00:00Z", ""),
    ],
)
def test_filters_must_all_fit(rest: Rest, me: str, query: str, expected: str) -> None:
    made = {
        "a": rows.call(caller_id=me),
        "b": rows.call(NOW + timedelta(seconds=1), caller_id=me, status="failed", code="TIMEOUT"),
        "c": rows.call(NOW + timedelta(seconds=2), caller_id=me, tool_name="calculate", door="mcp"),
    }

    assert ids(rest.get(f"/v1/calls?{query}")) == [made[letter].id for letter in reversed(expected)]


def test_refuses_any_other_query(rest: Rest, subtests: pytest.Subtests) -> None:
    for query, path in WRONG:
        with subtests.test(query=query[:60]):
            told = failure(rest.get(f"/v1/calls?{query}"), 400, "VALIDATION_ERROR")
            assert [problem["path"] for problem in told["details"]] == [path]


def test_pages_show_every_call_once_despite_new_calls(rest: Rest, me: str) -> None:
    # Three at each moment, so that a page ends within one.
    made = [rows.call(NOW + timedelta(seconds=number // 3), caller_id=me).id for number in range(11)]
    expected = sorted(made, reverse=True)

    seen: list[list[str]] = []
    for page in walk(rest, "limit=4"):
        seen.append(page)
        rows.call(NOW + timedelta(hours=1), caller_id=me)

    assert seen == [expected[:4], expected[4:8], expected[8:]]


def test_calls_that_were_really_made_are_shown_once(rest: Rest) -> None:
    made = [rest.call("echo", {"message": str(number)}).json()["callId"] for number in range(5)]

    assert [call_id for page in walk(rest, "limit=2") for call_id in page] == list(reversed(made))


def test_the_last_page_has_no_cursor_also_when_it_is_full(rest: Rest, me: str) -> None:
    for _ in range(4):
        rows.call(caller_id=me)

    assert [len(page) for page in walk(rest, "limit=2")] == [2, 2]
    assert [len(page) for page in walk(rest, "limit=2&tool=none")] == [0]


@pytest.mark.usefixtures("me")
class TestACursorIsGoodForOneListOnly:
    @pytest.fixture
    def cursor(self, rest: Rest, me: str) -> str:
        for _ in range(3):
            rows.call(caller_id=me)
        told: str = rest.get("/v1/calls?limit=1").json()["nextCursor"]
        return told

    def refused(self, response: Any) -> dict[str, Any]:
        told = failure(response, 400, "VALIDATION_ERROR")
        assert [problem["path"] for problem in told["details"]] == ["/cursor"]
        del told["timestamp"]
        return told

    def test_pagination_continues_with_another_limit(self, rest: Rest, cursor: str) -> None:
        assert len(ids(rest.get(f"/v1/calls?limit=50&cursor={cursor}"))) == 2

    def test_all_others_are_refused_alike(self, rest: Rest, cursor: str, make_key: MakeKey, root: str) -> None:
        bob = make_key("bob")
        flipped = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
        forged = base64.urlsafe_b64encode(b'["2026-03-01T12:00:00+00:00","1"]').decode().rstrip("=")
        answers = [
            self.refused(rest.get(f"/v1/calls?limit=1&cursor={cursor}", key=bob)),
            self.refused(rest.get(f"/v1/calls?limit=1&cursor={cursor}", key=root)),
            self.refused(rest.get(f"/v1/audit?limit=1&cursor={cursor}", key=root)),
            *(self.refused(rest.get(f"/v1/calls?limit=1&cursor={cursor}&{extra}")) for extra in FILTERS),
            *(
                self.refused(rest.get(f"/v1/calls?limit=1&cursor={wrong}"))
                for wrong in (flipped, forged, "x", "%00", "a:b:c", ":", "%F0%9F%98%80", cursor + "A", cursor[1:])
            ),
        ]

        assert all(told == answers[0] for told in answers)

    def test_a_day_later_it_is_refused(self, rest: Rest, cursor: str) -> None:
        with time_machine.travel(timedelta(days=1, minutes=1), tick=True):
            self.refused(rest.get(f"/v1/calls?limit=1&cursor={cursor}"))


@pytest.mark.parametrize("number", [3, 30])
def test_a_list_takes_one_query_however_long_it_is(rest: Rest, root: str, statements: list[str], number: int) -> None:
    for _ in range(number):
        rows.call(caller_id="key:999")
    rest.get("/v1/calls", key=root)
    statements.clear()

    assert len(ids(rest.get("/v1/calls", key=root))) == number

    asked = [sql for sql in statements if "tools_app_call" in sql and sql.startswith("SELECT")]
    assert len(asked) == 1
    assert '"arguments"' not in asked[0]


def test_a_revoked_key_sees_nothing_any_more(rest: Rest, me: str) -> None:
    rows.call(caller_id=me)
    governance.revoke_key(ApiKey.objects.get(name="alice"), actor=governance.trusted("test"))

    failure(rest.get("/v1/calls"), 401, "AUTHENTICATION_ERROR")
    assert Call.objects.filter(caller_id=me).count() == 1
