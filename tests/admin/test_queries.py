"""Whatever stands in the address of a page, the page answers."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.admin.conftest import agent, call, error_group, failed_call
from tests.admin.pages import page
from tools_app.models import AuditEntry

pytestmark = pytest.mark.django_db

LISTS = {
    "toolrecord": ("state", "effect", "pack", "tags__id__exact", "source"),
    "agent": ("caller", "door__exact", "era__exact"),
    "call": ("since", "from", "until", "slower", "tool", "caller", "connection", "code", "status"),
    "errorgroup": ("state", "since", "from", "until", "tool", "code"),
    "errorlog": ("since", "from", "until", "tool", "code", "group", "door__exact"),
    "auditentry": ("since", "from", "until", "action", "actor", "subject"),
    "apikey": ("state",),
    "source": ("state", "kind__exact"),
    "toolset": (),
    "connection": (),
    "process": (),
    "approval": ("state",),
    "definition": (),
    "stop": (),
}
EVERYWHERE = ("p", "q", "o", "_facets")
NO_FILTERS = ("id", "nonsense")
VALUES = ("", "-1", "9" * 40, "x'%", "\x00", "a" * 2_000)


@pytest.mark.parametrize("name", LISTS)
def test_no_list_breaks_on_what_its_address_asks_for(tools: None, chief: Client, name: str) -> None:
    call("echo")
    failed_call("echo", group=error_group("echo"))
    agent()
    AuditEntry.objects.create(actor="a", action="b", subject="c")
    for parameter in (*EVERYWHERE, *LISTS[name]):
        for value in VALUES:
            shown = page(chief, f"/admin/tools_app/{name}/", **{parameter: value})
            assert shown.status == 200, (parameter, value)
    for parameter in NO_FILTERS:
        for value in VALUES:
            shown = page(chief, f"/admin/tools_app/{name}/", **{parameter: value})
            assert shown.status == 200 or "Bad request" in shown.text, (parameter, value)


@pytest.mark.parametrize("name", LISTS)
def test_a_record_that_is_not_there_is_said_to_be_missing(tools: None, chief: Client, name: str) -> None:
    for key in ("0", "987654", "nothing", "a" * 300, "%00", "..%2f..", "1%27"):
        shown = page(chief, f"/admin/tools_app/{name}/{key}/change/")
        assert shown.status in {200, 404}, key
        assert shown.status == 404 or "doesn’t exist" in shown.messages[0], key


def test_a_name_that_cannot_be_is_said_to_be_missing(tools: None, chief: Client) -> None:
    for value in VALUES:
        shown = page(chief, "/admin/tools_app/toolrecord/named/", name=value)
        assert shown.messages[0].startswith("There is no tool named"), value
