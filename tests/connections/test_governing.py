"""Making, changing and deleting connections: what is refused, what is on record, and that no secret ever comes out."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection as database
from django.test import override_settings
from django.utils import timezone

from tests.connections.conftest import called, caller
from tests.support.desk import Desk
from tests.support.state import rebuild_catalog
from tests.support.tools import Hub
from tools_app import governance
from tools_app.base import secrets
from tools_app.catalog import catalog, connections
from tools_app.models import AuditEntry, Connection, StoredAnswer, revision
from tools_app.sdk.errors import ConflictError, NotFoundError, ValidationError

CANARY = "canary-Q7fJ2mXw"
URL = "https://desk.example.org"


def make(name: str = "main", **given: Any) -> Connection:
    return governance.create_connection(
        name, **{"pack": "desk", "url": URL, "secret": CANARY, "actor": governance.trusted("user:ann"), **given}
    )


@pytest.mark.parametrize(
    ("given", "path", "said"),
    [
        ({"name": "Main"}, "/name", "Lowercase letters"),
        ({"name": "environment"}, "/name", "reserved for connections from the environment"),
        ({"name": "x" * 65}, "/name", "64"),
        ({"pack": "builtin"}, "/pack", "No pack 'builtin' needs a connection; known are: desk"),
        ({"url": ""}, "/url", "blank"),
        ({"url": "desk.example.org"}, "/url", "must begin with https:// or http://"),
        ({"url": "http://desk.example.org"}, "/url", "must begin with https://"),
        ({"url": "https://a:b@desk.example.org"}, "/url", "must not contain a user name or password"),
        ({"url": f"{URL}/?key={CANARY}"}, "/url", "must end before"),
        ({"url": f"{URL}/../x"}, "/url", "must not contain"),
        ({"url": "file:///etc/passwd"}, "/url", "must begin with"),
        ({"url": "https://169.254.169.254"}, "/url", "the machine's own network"),
        ({"url": "https://[fe80::1]"}, "/url", "the machine's own network"),
        ({"url": "http://metadata.google.internal", "allow_http": True}, "/url", "the machine's own network"),
        ({"timeout_ms": 5}, "/timeout_ms", "100"),
        ({"secret": ""}, "/secret", "needs a secret"),
        ({"secret": f"{CANARY}\nX-Admin: 1"}, "/secret", "printable ASCII"),
        ({"secret": f" {CANARY}"}, "/secret", "printable ASCII"),
        ({"secret": "x" * 4001}, "/secret", "4,000"),
        ({"secret": "gehäim"}, "/secret", "printable ASCII"),
    ],
)
def test_what_cannot_work_is_refused_and_its_secret_not_repeated(
    notes: Hub, given: dict[str, Any], path: str, said: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        make(**given)
    assert [problem.path for problem in refused.value.problems] == [path]
    assert said in refused.value.message
    assert CANARY not in str(refused.value.as_dict())
    assert not Connection.objects.exists()
    assert not AuditEntry.objects.filter(subject__startswith="connection").exists()


def test_everything_is_on_record_but_the_secret(notes: Hub) -> None:
    make(read_only=True, reason="they asked")
    governance.change_connection("main", read_only=False, secret=f"{CANARY}2", actor=governance.trusted("user:bob"))
    governance.change_connection("main", read_only=False, actor=governance.trusted("user:bob"))
    governance.create_key("agent", connections=["main"], actor=governance.trusted("test"))
    governance.delete_connection("main", actor=governance.trusted("user:bob"), reason="done")

    entries = AuditEntry.objects.filter(subject="connection:main").order_by("pk")
    told = [(entry.action, entry.actor, entry.reason, entry.changes) for entry in entries]
    made = {"pack": "desk", "url": URL, "read_only": True, "allow_http": False, "enabled": True, "secret": "set"}
    assert told == [
        ("connection.create", "user:ann", "they asked", {part: [None, value] for part, value in made.items()}),
        ("connection.change", "user:bob", "", {"read_only": [True, False], "secret": ["set", "changed"]}),
        (
            "connection.delete",
            "user:bob",
            "done",
            {"pack": ["desk", None], "url": [URL, None], "keys": [["agent"], []]},
        ),
    ]
    assert AuditEntry.objects.get(action="key.create").changes["connections"] == [None, ["main"]]
    assert CANARY not in json.dumps(list(AuditEntry.objects.values()), default=str)


def test_a_secret_goes_only_where_it_was_set_for(notes: Hub) -> None:
    """A change of the address alone would otherwise send the secret to a server of the editor."""
    make()
    for elsewhere in ("https://evil.example.org", "https://desk.example.org:444", "http://localhost"):
        with pytest.raises(ValidationError) as refused:
            governance.change_connection("main", url=elsewhere, actor=governance.trusted("test"))
        assert refused.value.problems[0].path == "/secret"
    assert governance.change_connection("main", url=f"{URL}/sub", actor=governance.trusted("test")) == ["url"]
    assert governance.change_connection(
        "main", url="https://new.example.org", secret="n3w", actor=governance.trusted("test")
    ) == [
        "secret",
        "url",
    ]


def test_what_was_found_out_does_not_outlive_a_change(notes: Hub) -> None:
    make()
    governance.note_check("main", "desk", healthy=True, words="Well.", actor=governance.trusted("test"))
    governance.change_connection("main", read_only=True, actor=governance.trusted("test"))
    assert Connection.objects.get().healthy is True
    governance.change_connection("main", secret="another-one", actor=governance.trusted("test"))
    assert Connection.objects.get().healthy is None


def test_names_are_unique_and_unknown_names_are_reported(notes: Hub) -> None:
    make()
    with pytest.raises(ConflictError):
        make()
    for change in (governance.change_connection, governance.delete_connection):
        with pytest.raises(NotFoundError):
            change("nobody", actor=governance.trusted("test"))
    with pytest.raises(ValidationError, match="There is no connection 'nobody'; there are: environment, main"):
        governance.create_key("agent", connections=["nobody"], actor=governance.trusted("test"))
    with pytest.raises(ValidationError, match="'color' is no part"):
        governance.change_connection("main", color="red", actor=governance.trusted("test"))


def test_one_that_is_broken_can_still_be_switched_off(notes: Hub) -> None:
    make()
    Connection.objects.update(url="nonsense [")
    assert governance.change_connection("main", enabled=False, actor=governance.trusted("test")) == ["enabled"]


def test_counts_as_a_change_unless_only_its_health_did(notes: Hub) -> None:
    numbers = [revision.numbers(database).value]
    for change in (
        make,
        lambda: Connection.objects.update(read_only=True),
        lambda: Connection.objects.update(sealed=secrets.encrypted(b"other")),
        lambda: governance.create_key("agent", connections=["main"], actor=governance.trusted("test")),
        lambda: governance.delete_connection("main", actor=governance.trusted("test")),
    ):
        change()
        numbers.append(revision.numbers(database).value)
        assert numbers[-1] > numbers[-2]
    make()
    before = revision.numbers(database).value
    governance.note_check("main", "desk", healthy=False, words="Down.", actor=governance.trusted("test"))
    assert revision.numbers(database).value == before


def test_no_secret_is_in_the_database_or_in_snapshots(notes: Hub) -> None:
    make()
    key = bytes(Connection.objects.get().sealed)
    assert CANARY.encode() not in key
    assert secrets.decrypted(key) == CANARY.encode()
    shown = repr(catalog.current().entries["list_notes"].accounts)
    assert CANARY not in shown
    assert key.decode() not in shown


# ---- new keys for old secrets

OLD, NEW = "old-key-of-the-hub", "new-key-of-the-hub"


class TestRotation:
    def rotated(self, capsys: pytest.CaptureFixture[str], code: int = 0) -> Any:
        try:
            call_command("rotatesecrets")
            ended = 0
        except SystemExit as end:
            ended = int(end.code or 0)
        assert ended == code
        return capsys.readouterr()

    def test_takes_everything_to_the_first_key_without_a_break(
        self, notes: Hub, desk: Desk, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with override_settings(TOOLHUB_ENCRYPTION_KEY=OLD):
            for name in ("ann", "bob"):
                governance.create_connection(
                    name, "desk", url=desk.url, secret=f"key-of-{name}-1", actor=governance.trusted("test")
                )
            called("add_note", {"text": "x"}, by=caller("ann"), idempotency_key="once")
            now = timezone.now()
            kept = secrets.encrypted(b"a large answer")
            StoredAnswer.objects.create(id="1", content=kept, is_text=True, size=1, created_at=now, expires_at=now)
        with override_settings(TOOLHUB_ENCRYPTION_KEY=f"{NEW},{OLD}"):
            rebuild_catalog()
            called("list_notes", by=caller("bob"))
            assert self.rotated(capsys).out == "4 re-encrypted, 0 already current.\n"
            assert self.rotated(capsys).out == "0 re-encrypted, 4 already current.\n"
        with override_settings(TOOLHUB_ENCRYPTION_KEY=NEW):
            assert called("add_note", {"text": "x"}, by=caller("ann"), idempotency_key="once") == {"added": ["x"]}
            called("list_notes", by=caller("bob"))
            assert secrets.decrypted(bytes(StoredAnswer.objects.get().content)) == b"a large answer"
        assert desk.keys == ["key-of-ann-1", "key-of-bob-1", "key-of-bob-1"]
        (entry,) = AuditEntry.objects.filter(action="secrets.rotate")
        assert entry.changes == {"rotated": [None, 4]}

    def test_passes_over_replies_that_were_deleted_to_make_room(
        self, notes: Hub, desk: Desk, settings: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        settings.TOOLHUB_REPLIES_BYTES = 0
        governance.create_connection(
            "ann", "desk", url=desk.url, secret="key-of-ann-1", actor=governance.trusted("test")
        )
        called("add_note", {"text": "x"}, by=caller("ann"), idempotency_key="once")
        assert self.rotated(capsys).out == "0 re-encrypted, 1 already current.\n"

    def test_names_secrets_that_cannot_be_decrypted(self, notes: Hub, capsys: pytest.CaptureFixture[str]) -> None:
        with override_settings(TOOLHUB_ENCRYPTION_KEY=OLD):
            make()
        kept = bytes(Connection.objects.get().sealed)
        with override_settings(TOOLHUB_ENCRYPTION_KEY=NEW):
            told = self.rotated(capsys, code=1)
            assert told.err == "toolhub: cannot be decrypted with any key: connection main\n"
            kind = catalog.current().connection_kinds["desk"]
            assert "its secret cannot be decrypted" in connections.fault(Connection.objects.get(), kind)
        assert bytes(Connection.objects.get().sealed) == kept


def test_the_doctor_says_once_what_a_pack_lacks_and_what_is_broken(
    notes: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said() -> str:
        with pytest.raises(SystemExit):
            call_command("doctor")
        return str(capsys.readouterr().out)

    # Nobody has to use every pack that is there; whoever has begun to should hear what is missing.
    with contextlib.suppress(SystemExit):
        call_command("doctor")
    assert "ok  3 tools of desk: not configured: DESK_URL, DESK_KEY\n" in capsys.readouterr().out
    monkeypatch.setenv("DESK_URL", "https://desk.example")
    rebuild_catalog()
    assert "!!  3 tools of desk: not configured: DESK_KEY\n" in said()
    monkeypatch.delenv("DESK_URL")
    rebuild_catalog()
    make()
    Connection.objects.update(sealed=b"nonsense")
    told = said()
    assert "!!  connection main: its secret cannot be decrypted: set it again" in told
    assert "not configured" not in told


def test_a_host_of_an_operator_can_be_link_local(notes: Hub, settings: Any) -> None:
    settings.TOOLHUB_LINK_LOCAL_HOSTS = ["169.254.10.1"]
    assert make(url="https://169.254.10.1").url == "https://169.254.10.1"
    with pytest.raises(ValidationError):
        make("other", url="https://169.254.10.2")


def test_a_connection_that_was_link_local_already_can_no_longer_be_used(notes: Hub) -> None:
    row = make()
    Connection.objects.filter(pk=row.pk).update(url="https://169.254.169.254")
    row.refresh_from_db()
    assert "the machine's own network" in connections.fault(row, catalog.current().connection_kinds["desk"])
