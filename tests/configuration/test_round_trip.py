"""A hub as a file, and the file as a hub: nothing is lost, nothing is said twice, and no field is forgotten."""

from __future__ import annotations

from tests.configuration.conftest import SECRETS, applied, empty_hub, planned
from tests.support.tools import Hub
from tools_app.models import AuditEntry, ManagedRecord
from tools_app.setup import configuration


def export() -> bytes:
    return configuration.written(configuration.exported())


def test_an_export_makes_an_empty_hub_the_same(full: Hub, secrets_set: None) -> None:
    before = export()
    empty_hub()
    assert configuration.exported().data == configuration.read(b"version: 1").data
    plan = applied(before)
    assert export() == before
    assert plan.keys == ("boss", "ci")
    assert AuditEntry.objects.filter(action="config.apply").count() == 1
    again = planned(before)
    assert (again.changes, again.effects, again.drift, again.is_needed) == ((), (), (), False)


def test_an_export_has_no_secret(full: Hub) -> None:
    content = export().decode()
    for value in (*SECRETS.values(), "Bearer-literal-of-the-hub"):
        assert value not in content
    assert "${TOOLHUB_SECRET_MAIN}" in content
    assert "${TOOLHUB_SECRET_WIKI_TOKEN}" in content
    assert "gone" not in content


def test_an_export_changes_nothing_in_its_own_hub_but_who_manages_it(full: Hub) -> None:
    before = export()
    plan = applied(before)
    assert all(line.startswith("manages ") for line in plan.changes), plan.changes
    assert plan.effects == ()
    assert export() == before
    assert not planned(before).is_needed
    assert ManagedRecord.objects.filter(file="hub.yaml").count() == sum(
        len(part) for part in configuration.exported().data.values() if isinstance(part, dict)
    )
