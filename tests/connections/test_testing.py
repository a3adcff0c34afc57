"""The test of a connection: each way in which one can be wrong is said, with what helps."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator

import pytest

from tests.support.desk import Desk
from tests.support.faultd import Faultd
from tests.support.packs.desk import DESK
from tests.support.tools import Hub
from tools_app import governance
from tools_app.governance import probes
from tools_app.models import AuditEntry, Connection
from tools_app.sdk.accounts import Account
from tools_app.sdk.errors import NotFoundError

SECRET = "key-of-ann-1"


def found(url: str, secret: str = SECRET) -> str:
    """What a test says of a connection that is like this."""
    Connection.objects.all().delete()
    governance.create_connection("ann", "desk", url=url, secret=secret, actor=governance.trusted("test"))
    finding = probes.test_sync("ann", actor=governance.trusted("user:chief"))
    stored, entry = Connection.objects.get(), AuditEntry.objects.filter(action="connection.test").first()
    assert entry is not None
    assert (stored.healthy, stored.health) == (finding.healthy, "" if finding.healthy else str(finding))
    assert stored.checked_at is not None
    assert (entry.actor, entry.changes["healthy"]) == ("user:chief", [None, finding.healthy])
    assert SECRET not in f"{finding} {entry.changes}"
    assert finding.healthy or finding.next_step
    return str(finding)


def test_one_that_works_is_asked_once_and_changes_nothing(notes: Hub, desk: Desk) -> None:
    assert found(desk.url).startswith("Desk accepted the secret after ")
    (asked,) = desk.requests
    assert (asked.method, asked.target) == ("GET", "/desk/api/v1/notes?limit=1")


@pytest.mark.parametrize(
    ("place", "said", "step"),
    [
        ("status:401", "Wrong key: Desk does not accept it (401).", "Set the secret again."),
        ("status:403", "Missing permissions: Desk refuses", "whether the API is enabled there."),
        ("status:404", "/status:404/api/v1/notes?limit=1 is not an address of Desk (404).", "Set the address"),
        ("status:500", "Desk has a problem: it answers 500.", "Check Desk"),
        ("status:429", "Desk has a problem: it answers 429.", "Check Desk"),
        ("redirect:302", "redirects to", "Set the address that it redirects to"),
        ("html", "Wrong address: the server at this address is not the API of Desk.", "a login page"),
        ("truncated-json", "Wrong address: the server at this address is not the API of Desk.", "Set the address"),
        ("close", "Not reachable: Desk (ann) closed the connection.", "Check the address"),
    ],
)
def test_an_error_names_its_remedy(notes: Hub, desk: Desk, place: str, said: str, step: str) -> None:
    told = found(f"{desk.faults}/{place}")
    assert said in told
    assert step in told


def test_a_wrong_key_is_distinguished_from_a_wrong_address(notes: Hub, desk: Desk) -> None:
    assert found(desk.url, secret="another").startswith("Wrong key: Desk does not accept it (401).")
    assert found(desk.faults + "/desk/elsewhere").startswith("Wrong address: ")


def test_a_connection_without_a_server(notes: Hub, desk: Desk) -> None:
    with Faultd() as gone:
        port = gone.port
    assert found(f"http://127.0.0.1:{port}").startswith("Not reachable: Desk (ann) refuses connections.")


def test_one_that_does_not_answer_in_time(notes: Hub, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "SECONDS", 0.2)
    assert found(f"{desk.faults}/hang").startswith("Too slow: Desk (ann) did not answer within 200ms.")


@pytest.fixture(params=["self-signed", "expired"])
def insecure(request: pytest.FixtureRequest) -> Iterator[Faultd]:
    with Faultd(tls=request.param) as upstream:
        yield upstream


def test_one_that_cannot_be_trusted_is_sent_no_key(notes: Hub, insecure: Faultd) -> None:
    told = found(f"{insecure.url}/ok")
    assert told.startswith("No secure connection: Desk (ann) has an invalid certificate: ")
    assert insecure.requests == []


def test_one_whose_secret_cannot_be_read(notes: Hub, desk: Desk) -> None:
    governance.create_connection("ann", "desk", url=desk.url, secret=SECRET, actor=governance.trusted("test"))
    Connection.objects.update(sealed=b"nonsense")
    assert str(probes.test_sync("ann", actor=governance.trusted("test"))).startswith(
        "The secret of the connection ann cannot be read."
    )


def test_one_whose_address_cannot_be_used_is_not_asked(notes: Hub) -> None:
    account = Account("ann", "desk", DESK, "", secret="x", defect="The base URL is not one")
    finding = asyncio.run(probes.probe(account))
    assert str(finding) == "It cannot be used: The base URL is not one. Correct it."


@pytest.mark.usefixtures("from_environment")
def test_that_of_the_environment_can_be_tested_too(notes: Hub, desk: Desk) -> None:
    assert probes.test_sync("environment:desk", actor=governance.trusted("test")).healthy
    assert AuditEntry.objects.get(action="connection.test").subject == "connection:environment:desk"
    for unknown in ("environment:builtin", "environment:", "environment", "nobody", "x" * 300):
        with pytest.raises(NotFoundError):
            probes.test_sync(unknown, actor=governance.trusted("test"))


def test_the_words_are_those_of_the_hub_not_of_the_pack(notes: Hub, desk: Desk) -> None:
    def explained(_: object) -> None:
        raise AssertionError

    account = Account("ann", "desk", dataclasses.replace(DESK, explain=explained), f"{desk.url}/api/v1", secret="wrong")
    assert asyncio.run(probes.probe(account)).words == "Wrong key: Desk does not accept it (401)."


def test_a_hub_that_starts_says_what_is_wrong(
    notes: Hub, desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DESK_URL", desk.url)
    monkeypatch.setenv("DESK_KEY", "wrong")
    for name, enabled in (("ann", True), ("bob", True), ("off", False)):
        governance.create_connection(
            name, "desk", url=desk.url, secret=f"key-of-{name}-1", enabled=enabled, actor=governance.trusted("test")
        )
    governance.change_connection("bob", url=f"{desk.faults}/html", actor=governance.trusted("test"), secret="x")
    before = AuditEntry.objects.count()
    with caplog.at_level("WARNING", "tools_app.catalog.connections"):
        thread = threading.Thread(target=probes.probe_all)
        thread.start()
        thread.join(20)
    told = [record.getMessage() for record in caplog.records if record.name == "tools_app.catalog.connections"]
    assert [line.partition(": ")[0] for line in told] == ["connection environment:desk", "connection bob"]
    assert "Wrong key" in told[0]
    assert dict(Connection.objects.values_list("name", "healthy")) == {"ann": True, "bob": False, "off": None}
    assert AuditEntry.objects.count() == before
