"""Connections of sources outside: what is sent for each form, what is refused, and that no value ever comes out."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import override_settings

from tests.support.tools import Hub
from tools_app import governance
from tools_app.base import secrets
from tools_app.catalog import accounts, connections
from tools_app.governance.connections import unbind
from tools_app.models import AuditEntry, Connection, Source, Stop
from tools_app.sdk.accounts import Account, ConnectionKind, Credentials
from tools_app.sdk.errors import ConfigurationError, ConflictError, NotFoundError, ValidationError

CANARY = "canary-W8rT4kLp"
ACTOR = governance.trusted("user:ann")


@pytest.fixture(autouse=True)
def sources(hub: Hub) -> None:
    Source.objects.create(name="acme", prefix="acme", kind=Source.Kind.MCP_HTTP, location="https://acme.example/mcp")
    Source.objects.create(name="files", prefix="files", kind=Source.Kind.MCP_STDIO, command=["npx", "-y", "files"])


def make(name: str = "main", pack: str = "acme", form: str = "header", **given: Any) -> Connection:
    given.setdefault("secret", {"X-Key": CANARY})
    return governance.create_connection(name, pack, **{"form": form, "actor": ACTOR, **given})


def account(name: str = "main") -> Account:
    row = Connection.objects.get(name=name)
    return accounts.of_row(row, ConnectionKind.outside(row.pack))


def sent(name: str = "main") -> Credentials:
    return connections.credentials_of(account(name))


def change(name: str = "main", **given: Any) -> list[str]:
    return governance.change_connection(name, **{"actor": ACTOR, **given})


@pytest.mark.parametrize(
    ("pack", "form", "secret", "credentials", "names"),
    [
        ("acme", "header", {"X-B": "2", "X-A": "1"}, Credentials(headers={"X-B": "2", "X-A": "1"}), ["X-A", "X-B"]),
        ("acme", "bearer", "t0ken", Credentials(headers={"Authorization": "Bearer t0ken"}), ["token"]),
        ("acme", "bearer", {"token": "t"}, Credentials(headers={"Authorization": "Bearer t"}), ["token"]),
        (
            "acme",
            "basic",
            {"password": "pä:ss", "user": "ann"},
            Credentials(headers={"Authorization": f"Basic {base64.b64encode('ann:pä:ss'.encode()).decode()}"}),
            ["user", "password"],
        ),
        ("acme", "query", {"key": "a b&c", "v": "1"}, Credentials(query={"key": "a b&c", "v": "1"}), ["key", "v"]),
        ("files", "environment", {"PEM": "a\nb"}, Credentials(environment={"PEM": "a\nb"}), ["PEM"]),
    ],
)
def test_each_form_is_sent_as_it_is_named(
    pack: str, form: str, secret: Any, credentials: Credentials, names: list[str]
) -> None:
    row = make(pack=pack, form=form, secret=secret)
    assert sent() == credentials
    assert (row.names, row.references) == (names, [])
    assert row.url == Source.objects.get(name=pack).location
    for value in credentials.secrets:
        assert value not in repr(credentials)
    assert connections.fault(row, ConnectionKind.outside(pack)) == ""


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({"form": ""}, "/form", "one of these forms: header, bearer, basic, query"),
        ({"form": "environment"}, "/form", "one of these forms"),
        ({"pack": "files", "form": "header"}, "/form", "one of these forms: environment"),
        ({"form": "cookie"}, "/form", "not a valid choice"),
        ({"secret": ""}, "/secret", "needs a secret"),
        ({"secret": {}}, "/secret", "needs a secret"),
        ({"secret": CANARY}, "/secret", "names and their values"),
        ({"secret": {"X-Key": None}}, "/secret", "expected 1 to 20 names"),
        ({"secret": {f"X-{number}": CANARY for number in range(21)}}, "/secret", "expected 1 to 20 names"),
        *(
            ({"secret": {name: CANARY}}, "/secret", "sets this header itself")
            for name in ("Host", "cookie", "Content-Type", "MCP-Session-Id", "Accept", "Proxy-Authorization", "Origin")
        ),
        ({"secret": {"X Key": CANARY}}, "/secret", "not the name of a header"),
        ({"secret": {"X-Key": CANARY, "x-key": CANARY}}, "/secret", "there twice"),
        ({"secret": {"X-Key": f"{CANARY}\r\nX-Admin: 1"}}, "/secret", "printable ASCII"),
        ({"secret": {"X-Key": f"{CANARY}ä"}}, "/secret", "printable ASCII"),
        ({"secret": {"X-Key": CANARY * 500}}, "/secret", "more than 4,000"),
        ({"secret": {"X-Key": CANARY + "${SECRET_KEY}"}}, "/secret", "TOOLHUB_SECRET_"),
        ({"secret": {"X-Key": CANARY + "${file:../x}"}}, "/secret", "file: and the name of a file"),
        ({"form": "basic", "secret": {"user": "ann"}}, "/secret", "password: this form consists of user and password"),
        ({"form": "basic", "secret": {"user": "a", "password": "b", "x": CANARY}}, "/secret", "x: this form"),
        ({"form": "basic", "secret": {"user": "a:b", "password": CANARY}}, "/secret", "user contains characters"),
        ({"form": "bearer", "secret": {"other": CANARY}}, "/secret", "this form consists of token"),
        ({"form": "query", "secret": {"a=b": CANARY}}, "/secret", "a parameter has letters"),
        ({"form": "query", "secret": {"a": f"{CANARY}\n"}}, "/secret", "not allowed"),
        ({"pack": "files", "form": "environment", "secret": {"NODE_OPTIONS": CANARY}}, "/secret", "run other code"),
        ({"pack": "files", "form": "environment", "secret": {"TOOLHUB_X": CANARY}}, "/secret", "not for child"),
        ({"pack": "files", "form": "environment", "secret": {"A": f"{CANARY}\0"}}, "/secret", "no variable can have"),
        ({"url": "https://evil.example"}, "/url", "has no url: set it at the source"),
        ({"allow_http": True}, "/allow_http", "set it at the source"),
        ({"timeout_ms": 1000}, "/timeout_ms", "set it at the source"),
        ({"options": {"x": 1}}, "/options", "set it at the source"),
        ({"name": "environment"}, "/name", "reserved"),
        ({"pack": "none"}, "/pack", "No pack 'none' needs a connection"),
    ],
)
def test_what_cannot_work_is_refused_and_no_value_repeated(given: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        make(**given)
    assert [problem.path for problem in refused.value.problems] == [path]
    assert words in refused.value.message
    assert CANARY not in str(refused.value.as_dict())
    assert not Connection.objects.exists()


def test_of_several_values_one_can_be_changed_added_and_removed() -> None:
    make(secret={"X-A": f"{CANARY}1", "X-B": f"{CANARY}2"})
    assert change(secret={"X-B": "new", "X-C": "third"}) == ["names", "secret"]
    assert sent().headers == {"X-A": f"{CANARY}1", "X-B": "new", "X-C": "third"}
    assert change(secret={"X-A": None}) == ["names", "secret"]
    assert sent().headers == {"X-B": "new", "X-C": "third"}
    assert change(read_only=True) == ["read_only"]
    with pytest.raises(ValidationError, match="expected 1 to 20"):
        change(secret={"X-B": None, "X-C": None})
    with pytest.raises(ValidationError, match="Give the secret again: it was set for another form"):
        change(form="query")
    assert change(form="query", secret={"key": "k"}) == ["form", "names", "secret"]
    assert sent() == Credentials(query={"key": "k"})


def test_the_audit_trail_has_names_and_no_values(caplog: pytest.LogCaptureFixture) -> None:
    make(secret={"X-A": CANARY, "X-B": CANARY + "${file:b}"})
    change(secret={"X-B": f"{CANARY}2"}, reason="rotated")
    made, changed = AuditEntry.objects.filter(subject="connection:main").order_by("pk")
    assert made.changes["secret"] == [None, "set: X-A, X-B"]
    assert made.changes["form"] == [None, "header"]
    assert made.changes["names"] == [None, ["X-A", "X-B"]]
    assert made.changes["references"] == [None, ["file:b"]]
    assert changed.changes == {"references": [["file:b"], []], "secret": ["set", "set: X-B"]}
    Connection.objects.update(sealed=b"nonsense")
    with pytest.raises(ConfigurationError):
        sent()
    assert CANARY not in json.dumps(list(AuditEntry.objects.values()), default=str) + caplog.text
    assert CANARY not in repr(account())


def test_a_reference_follows_its_file_and_a_missing_one_is_a_fault(
    tmp_path: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.TOOLHUB_SECRETS_DIR = tmp_path
    row = make(secret={"Authorization": "Token ${file:acme}"})
    assert row.references == ["file:acme"]
    assert account().obstacle(writes=False) == ""
    assert "cannot be used: file:acme cannot be read" in account().obstacle_now(writes=False)
    kind = ConnectionKind.outside("acme")
    assert connections.fault(row, kind).startswith("file:acme cannot be read")
    with pytest.raises(ConfigurationError, match="The connection main cannot be used: file:acme cannot be read"):
        sent()
    with pytest.raises(SystemExit):
        call_command("doctor")
    assert "!!  connection main: file:acme cannot be read in TOOLHUB_SECRETS_DIR" in capsys.readouterr().out

    used, marks = account(), [account().mark]
    for value in ("one", "two"):
        (tmp_path / "acme").write_text(f"{value}\n")
        assert connections.credentials_of(used) == Credentials(headers={"Authorization": f"Token {value}"})
        assert used.obstacle_now(writes=False) == ""
        marks.append(used.mark)
    assert len(set(marks)) == 3
    assert connections.fault(row, kind) == ""
    (tmp_path / "acme").write_text(f"{CANARY}\nsecond line")
    with pytest.raises(ConfigurationError, match="Authorization must be") as refused:
        sent()
    assert CANARY not in str(refused.value.as_dict()) + connections.fault(row, kind)


def test_the_mark_changes_with_form_names_and_values() -> None:
    make(form="bearer", secret="one")
    marks = [account().mark]
    for given in ({"secret": "two"}, {"form": "query", "secret": {"a": "two"}}, {"secret": {"b": "two", "a": None}}):
        change(**given)
        marks.append(account().mark)
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/mcp", "https://acme.example:444/mcp", "http://acme.example/mcp"]
)
def test_a_secret_is_not_sent_to_another_address_of_its_source(elsewhere: str) -> None:
    """Even if the source was changed by something that does not delete its secrets."""
    make()
    Source.objects.filter(name="acme").update(location=elsewhere)
    with pytest.raises(ConfigurationError, match="was set for another address of its source"):
        sent()
    assert "another address" in account().obstacle(writes=False)
    assert change(enabled=False) == ["enabled"]
    with pytest.raises(ValidationError, match="Give every value again, also that of X-Key"):
        change(secret={"X-Other": "x"})
    change(secret={"X-Key": "new"}, enabled=True)
    assert sent().headers == {"X-Key": "new"}
    assert Connection.objects.get().url == elsewhere


def test_another_path_of_the_same_server_needs_nothing() -> None:
    make()
    Source.objects.filter(name="acme").update(location="https://acme.example/v2/mcp")
    assert sent().headers == {"X-Key": CANARY}
    assert account().base == "https://acme.example/v2/mcp"


def test_a_source_that_is_another_one_now_has_no_secrets() -> None:
    make()
    make("second", secret={"X-Key": "${file:x}"})
    make("child", "files", "environment", secret={"A": "1"})
    assert unbind("acme") == ["main", "second"]
    assert unbind("acme") == []
    for name in ("main", "second"):
        with pytest.raises(ConfigurationError, match="its secret was deleted: set it again"):
            sent(name)
        assert bytes(Connection.objects.get(name=name).sealed) == b""
    assert sent("child").environment == {"A": "1"}
    change("second", secret={"X-Key": "new"})
    assert sent("second").headers == {"X-Key": "new"}


def test_a_connection_to_the_former_server_gets_no_new_secret() -> None:
    make()
    origin = Source.objects.get(name="acme").origin
    assert connections.credentials_of(account(), origin).headers == {"X-Key": CANARY}
    Source.objects.filter(name="acme").update(location="https://new.example/mcp", epoch=2)
    change(secret={"X-Key": "new"})
    with pytest.raises(ConfigurationError, match="acme has been changed meanwhile"):
        connections.credentials_of(account(), origin)


def test_a_removed_source_leaves_a_connection_that_can_only_be_switched_off() -> None:
    make()
    Source.objects.filter(name="acme").update(removed_at="2026-01-01T00:00:00Z")
    assert connections.fault(Connection.objects.get(), ConnectionKind.outside("acme")) == "there is no source acme"
    with pytest.raises(ValidationError, match="There is no source acme any more"):
        change(secret={"X-Key": "new"})
    assert change(enabled=False) == ["enabled"]
    governance.delete_connection("main", actor=ACTOR)


def test_the_connection_that_describes_a_source_is_not_deleted() -> None:
    row = make()
    Source.objects.filter(name="acme").update(connection=row)
    with pytest.raises(ConflictError, match="The source acme is described through the connection main"):
        governance.delete_connection("main", actor=ACTOR)
    Source.objects.filter(name="acme").update(removed_at="2026-01-01T00:00:00Z")
    governance.delete_connection("main", actor=ACTOR)
    assert Source.objects.get(name="acme").connection is None


def test_a_source_is_described_through_a_connection_that_can_be_used() -> None:
    make()
    assert connections.account_of("main") == account()
    Stop.objects.create(kind=Stop.Kind.CONNECTION, name="main", by="test")
    with pytest.raises(ConfigurationError, match="The connection main has been stopped by an operator"):
        connections.account_of("main")
    Stop.objects.all().delete()
    change(enabled=False)
    with pytest.raises(ConfigurationError, match="The connection main is disabled"):
        connections.account_of("main")
    with pytest.raises(NotFoundError):
        connections.account_of("none")


def test_values_are_encrypted_and_take_a_new_key(capsys: pytest.CaptureFixture[str]) -> None:
    with override_settings(TOOLHUB_ENCRYPTION_KEY="old-key"):
        make()
        sealed = bytes(Connection.objects.get().sealed)
        assert CANARY.encode() not in sealed
        assert secrets.decrypted(sealed) == json.dumps({"X-Key": CANARY}).encode()
    with override_settings(TOOLHUB_ENCRYPTION_KEY="new-key,old-key"):
        make("unbound")
        unbind("acme")
        Connection.objects.filter(name="main").update(sealed=sealed)
        call_command("rotatesecrets")
        assert capsys.readouterr().out == "1 re-encrypted, 0 already current.\n"
    with override_settings(TOOLHUB_ENCRYPTION_KEY="new-key"):
        assert sent().headers == {"X-Key": CANARY}
    with override_settings(TOOLHUB_ENCRYPTION_KEY="lost-key"):
        assert "cannot be read" in connections.fault(
            Connection.objects.get(name="main"), ConnectionKind.outside("acme")
        )
        with pytest.raises(ValidationError, match="Give every value again"):
            change(secret={"X-Other": "x"})


def test_the_kind_of_a_source_outside_is_data_and_has_no_variables() -> None:
    kind = ConnectionKind.outside("acme")
    assert ConnectionKind.read(kind.as_dict()) == kind
    assert json.loads(json.dumps(kind.as_dict())) == kind.as_dict()
    assert kind.variables == ()
    assert accounts.from_environment("acme", kind) is None
    assert connections.unreadable({"acme": kind}, []) == []
    with pytest.raises(ValueError, match="two variables"):
        ConnectionKind("Pack", header="x")


def test_the_connection_of_a_pack_has_one_credential(hub: Hub) -> None:
    kind = ConnectionKind("Desk", "DESK_URL", "DESK_KEY", "X-Desk", prefix="Key ")
    of_pack = Account("environment", "desk", kind, "https://desk.example", secret="s3cret")
    assert connections.credentials_of(of_pack) == Credentials(headers={"X-Desk": "Key s3cret"})
