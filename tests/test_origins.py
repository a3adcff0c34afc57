"""The audit trail shows the origin of each change."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from django.test import Client

from tests.api.conftest import MakeKey, make_key, server
from tests.support.tools import Hub
from tools_app import governance
from tools_app.models import AuditEntry, ToolRecord
from tools_app.models.audit import MOST_OF_CLIENT

__all__ = ["make_key", "server"]
BROWSER = "Mozilla/5.0 (X11; Linux x86_64)"


def test_of_a_person_in_the_admin(hub: Hub, django_user_model: Any) -> None:
    client = Client(REMOTE_ADDR="192.0.2.7", HTTP_USER_AGENT=BROWSER, HTTP_X_FORWARDED_FOR="203.0.113.9")
    client.force_login(django_user_model.objects.create_superuser("root"))
    echo = ToolRecord.objects.get(name="echo")
    client.post(f"/admin/tools_app/toolrecord/{echo.pk}/switch/", {"enabled": "0"})
    entry = AuditEntry.objects.get(action="tool.disable")
    assert (entry.actor, entry.address, entry.client) == ("user:root", "192.0.2.7", BROWSER)
    shown = client.get(f"/admin/tools_app/auditentry/{entry.pk}/change/").content.decode()
    assert "192.0.2.7" in shown
    assert BROWSER in shown


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("agent/1.0", "agent/1.0"),
        ("agent " * 500 + "x", ("agent " * 33).strip()),
        ("a\x1b[31m\u00ad<b>", "a<b>"),
        ("", None),
        ("password=x " * 90 + "y", None),
    ],
)
def test_of_a_key_over_rest(server: httpx.Client, make_key: MakeKey, said: str, kept: str | None) -> None:
    headers = httpx.Headers({"X-API-Key": make_key("boss", scopes=["admin:*"]), "User-Agent": said}, "latin-1")
    done = server.patch("/v1/tools/echo", json={"enabled": False}, headers=headers)
    assert done.status_code == 200
    (entry,) = server.get("/v1/audit?action=tool.disable", headers=headers).json()["entries"]
    assert (entry["actor"], entry["address"]) == ("key:boss", "127.0.0.1")
    if "password" in said:
        assert "=x" not in entry["client"]
        assert len(entry["client"]) <= MOST_OF_CLIENT
    else:
        assert entry["client"] == kept


def test_of_many_at_once_each_has_its_own(server: httpx.Client, make_key: MakeKey) -> None:
    from concurrent.futures import ThreadPoolExecutor

    key = make_key("boss", scopes=["admin:*"])

    def make(number: int) -> int:
        headers = {"X-API-Key": key, "User-Agent": f"program {number}"}
        return server.post("/v1/keys", json={"name": f"key {number}"}, headers=headers).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(make, range(24))) == {201}
    made = AuditEntry.objects.filter(subject__startswith="key:key ").values_list("subject", "client")
    assert dict(made) == {f"key:key {number}": f"program {number}" for number in range(24)}


def test_of_a_command_there_is_nothing_to_say(hub: Hub) -> None:
    governance.set_enabled(["echo"], enabled=False, actor=governance.trusted("command:alice"))
    entry = AuditEntry.objects.get(action="tool.disable")
    assert (entry.address, entry.client) == ("", "")
