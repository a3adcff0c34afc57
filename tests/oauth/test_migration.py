"""Back to the release before OAuth, and forward again: no connection is lost, and no secret is sent by mistake."""

from __future__ import annotations

import pytest
from django.apps.registry import Apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from tools_app.base import secrets
from tools_app.models import Connection

pytestmark = pytest.mark.django_db(transaction=True)

BEFORE = "0020_sources_outside"


def earlier() -> Apps:
    return MigrationLoader(connection).project_state(("tools_app", BEFORE)).apps


def test_the_previous_release_gets_connections_that_it_knows() -> None:
    sealed = secrets.encrypted(b"{}")
    Connection.objects.create(name="ann", pack="acme", form="oauth", options={"per_user": True}, sealed=sealed)
    Connection.objects.create(name="robot", pack="acme", form="client_credentials", names=["client_id"], sealed=sealed)
    Connection.objects.create(name="other", pack="acme", form="bearer", names=["token"], sealed=sealed)
    Connection.objects.get(name="ann").tokens.create(sealed=sealed)
    try:
        call_command("migrate", "tools_app", BEFORE, verbosity=0)
        rows = {row.name: row for row in earlier().get_model("tools_app", "Connection").objects.all()}
        assert {name: row.form for name, row in rows.items()} == dict.fromkeys(("ann", "robot", "other"), "bearer")
        assert {name: bytes(row.sealed) for name, row in rows.items()} == {"ann": b"", "robot": b"", "other": sealed}
        assert rows["ann"].options == {}
    finally:
        call_command("migrate", verbosity=0)
    assert Connection.objects.count() == 3
    call_command("flush", verbosity=0, interactive=False)
