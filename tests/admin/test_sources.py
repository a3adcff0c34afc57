"""Sources in the admin: their state, their switch, trust and policy, and deleting tools that have none."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from tests.admin.conftest import browser
from tests.admin.pages import Page, page, sent
from tests.support.tools import Hub, Programmable
from toolhub import Hints, Pack
from tools_app import governance, sources
from tools_app.models import AuditEntry, Source, SourceStatus, ToolRecord, Toolset
from tools_app.sources import sync

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tools")]

SOURCES = "/admin/tools_app/source/"
SMALL = "tests.support.packs.small"


def source(name: str = SMALL) -> Source:
    return Source.objects.get(name=name)


def address(view: str = "change", name: str = SMALL) -> str:
    return f"{SOURCES}{source(name).pk}/{view}/"


def failed() -> None:
    """The shipped tools cannot be described."""
    now = timezone.now()
    SourceStatus.objects.filter(source=source()).update(
        availability="down",
        error="the disk <b>burns</b>",
        since=now - timedelta(hours=2),
        next_try_at=now + timedelta(minutes=3),
    )


def names(shown: Page) -> list[str]:
    return [link.text.strip() for link in shown.all("a", class_="hub-name")]


def test_the_list_shows_every_source_with_its_tools(viewer: Client) -> None:
    Source.objects.create(name="plugin:gone", kind="plugin", location="gone.tools")
    Source.objects.create(name="plugin:removed", kind="plugin", removed_at=timezone.now())
    shown = page(viewer, SOURCES)
    assert names(shown) == ["plugin:gone", SMALL]
    assert "not configured" in shown.text
    assert "available" in shown.text
    tools = ToolRecord.objects.filter(source=source()).count()
    link = shown.one("a", href=f"/admin/tools_app/toolrecord/?source={SMALL}")
    assert link.text.strip() == f"{tools} of {tools}"
    listed = page(viewer, link["href"])
    assert len(names(listed)) == tools
    assert names(page(viewer, SOURCES, q="gone.t")) == ["plugin:gone"]
    assert names(page(viewer, SOURCES, kind__exact="shipped")) == [SMALL]
    assert shown.all("button", role="switch") == []


def test_list_and_page_say_why_tools_that_are_on_cannot_be_called(viewer: Client, hub: Hub) -> None:
    pack = Pack("paint", title="Paint", requires=["PAINT_URL"])

    @pack.tool(category="test", hints=Hints(read_only=True))
    def draw() -> str:
        """Draw."""
        return ""

    hub.add(draw)
    expected = "1 not callable: not configured: PAINT_URL"
    code = sources.current().code.name
    assert expected in page(viewer, SOURCES, q=code).text
    assert expected in page(viewer, address(name=code)).text
    ToolRecord.objects.filter(name="draw").update(enabled=False)
    assert "not callable" not in page(viewer, SOURCES, q=code).text


@pytest.mark.parametrize("state", ["available", "incomplete", "failed", "starting", "sign_in", "not_configured", "off"])
def test_the_filter_by_state_agrees_with_the_state_that_is_shown(viewer: Client, state: str) -> None:
    now = timezone.now()
    here = {"tests.a": "ok", "tests.b": "ok", "tests.c": "down", "tests.d": "starting", "tests.e": "sign_in"}
    for name, availability in here.items():
        row = Source.objects.create(name=name[-1] * 4, prefix=name[-1] * 4, kind="mcp_http")
        error = "" if availability == "ok" and name != "tests.b" else "it failed"
        observed = {"availability": availability, "error": error, "since": now if error else None}
        SourceStatus.objects.create(source=row, described_at=now, **observed)
    Source.objects.create(name="plugin:gone", kind="plugin")
    Source.objects.create(name="plugin:off", kind="plugin", enabled=False)
    expected = {
        "available": ["aaaa", SMALL],
        "incomplete": ["bbbb"],
        "failed": ["cccc"],
        "starting": ["dddd"],
        "sign_in": ["eeee"],
        "not_configured": ["plugin:gone"],
        "off": ["plugin:off"],
    }
    assert names(page(viewer, SOURCES, state=state)) == expected[state]


def test_a_failed_source_says_why_since_when_and_when_the_next_try_is(viewer: Client) -> None:
    failed()
    listed = page(viewer, SOURCES)
    assert "since 2 hours ago, next try in 2 minutes the disk <b>burns</b>" in listed.text.replace("\xa0", " ")
    alone = page(viewer, address())
    assert "the disk <b>burns</b> since 20" in alone.text
    assert "next try 20" in alone.text
    for shown in (listed, alone):
        assert shown.all("span", class_="hub-bad")


@pytest.mark.django_db(transaction=True)
def test_switching_off_asks_first_and_is_undone_by_the_switch(operator: Client) -> None:
    asked = sent(operator, address("switch"), enabled="0")
    assert f"Switch off {SMALL}?" in asked.text
    assert "echo" in [tag.text.strip() for tag in asked.all("span", class_="hub-tag")]
    assert source().enabled
    done = sent(operator, address("switch"), enabled="0", confirmed="1", reason="it is moved")
    assert done.messages == [f"{SMALL} is off. Calls of its tools are refused from now on."]
    assert not source().enabled
    entry = AuditEntry.objects.get(action="source.disable")
    assert (entry.actor, entry.reason) == ("user:operator", "it is moved")
    assert "switched off by an operator" in page(operator, "/admin/tools_app/toolrecord/").text
    done = sent(operator, f"{address('switch')}?page=1", enabled="1")
    assert done.messages == [f"{SMALL} is on. Calls of its tools are accepted from now on."]
    assert sent(operator, address("switch"), enabled="1").messages == [f"{SMALL} was already on."]
    assert operator.post(address("switch"), {"enabled": "x"}).status_code == 400


@pytest.mark.django_db(transaction=True)
def test_trust_and_policy_are_saved_through_governance(operator: Client) -> None:
    shown = page(operator, address())
    assert "versions that wait are not decided by this" in shown.text
    saved = sent(operator, address(), trust="hold_changes", timeout_ms="2500", rate_calls="5", rate_seconds="60")
    assert saved.messages == [f"{SMALL} saved. Applies from the next call."]
    row = source()
    assert (row.trust, row.timeout_ms, row.rate_calls, row.rate_seconds) == ("hold_changes", 2500, 5, 60)
    assert set(AuditEntry.objects.filter(subject=f"source:{SMALL}").values_list("action", flat=True)) == {
        "source.sync",
        "source.trust",
        "source.policy",
    }
    tool = page(operator, f"/admin/tools_app/toolrecord/{ToolRecord.objects.get(name='echo').pk}/change/")
    assert "2,500 ms set for its source" in " ".join(tool.text.split())
    assert f"{SOURCES}named/?name={SMALL}" in tool.addresses
    sent(operator, address(), trust="hold_changes", timeout_ms="2500", rate_calls="5")
    assert source().rate_seconds == 60
    history = page(operator, address())
    assert "source.policy" in history.text


def test_every_tool_in_the_list_leads_to_its_source(viewer: Client) -> None:
    Hub().add(Programmable().tool)
    shown = page(viewer, "/admin/tools_app/toolrecord/")
    links = {link["href"]: link.text.strip() for link in shown.all("a", class_="hub-link")}
    assert links[address(name="code")] == "code"
    assert links[address()] != ""


def test_the_subject_of_an_audit_entry_leads_to_the_source(operator: Client) -> None:
    governance.change_source(SMALL, enabled=False, actor=governance.trusted("test"))
    assert f"{SOURCES}named/?name={SMALL}" in page(operator, "/admin/tools_app/auditentry/").addresses
    assert page(operator, f"{SOURCES}named/", name=SMALL).one("h2", class_="hub-title").text.strip() == SMALL
    assert page(operator, f"{SOURCES}named/", name="x\x00").messages == ["There is no source named x."]


def test_describing_again_says_what_is_new(operator: Client) -> None:
    sources.current().providers[SMALL].loaded().add(Programmable("late").tool)
    assert sent(operator, address("describe")).messages == [f"{SMALL} is described. new: late."]
    assert sent(operator, address("describe")).messages == [f"{SMALL} is described. Nothing has changed."]
    Source.objects.create(name="plugin:gone", kind="plugin")
    gone = address("describe", "plugin:gone")
    assert "this process does not have it" in sent(operator, gone).messages[0]
    assert "Describe again" not in page(operator, address(name="plugin:gone")).text


def test_a_viewer_sees_everything_and_changes_nothing(viewer: Client) -> None:
    shown = page(viewer, address())
    assert SMALL in shown.text
    assert shown.all("button", name="_save") == []
    assert shown.all("button", role="switch") == []
    for view in ("switch", "describe", "change"):
        assert viewer.post(address(view), {"enabled": "0", "confirmed": "1"}).status_code == 403
    assert source().enabled
    outsider = browser("outsider", "view_toolrecord")
    assert outsider.get(SOURCES).status_code == 403
    assert SOURCES not in "".join(page(outsider, "/admin/tools_app/toolrecord/").addresses)


def test_no_sources_yet(viewer: Client) -> None:
    ToolRecord.everything.all().delete()
    Source.objects.all().delete()
    assert "No sources yet" in page(viewer, SOURCES).text


# ---- deleting tools


def retired() -> ToolRecord:
    provider = sources.current().providers[SMALL]
    provider.loaded().add(Programmable().tool)
    sync.sync_source(provider, actor="test")
    governance.create_toolset("both", names=["echo", "programmable"], actor=governance.trusted("test"))
    provider.loaded().remove("programmable")
    sync.sync_source(provider, actor="test")
    return ToolRecord.objects.get(name="programmable")


def test_a_retired_tool_is_deleted_after_a_question(operator: Client, viewer: Client) -> None:
    record = retired()
    tool = f"/admin/tools_app/toolrecord/{record.pk}/"
    assert "Delete this tool…" in page(operator, f"{tool}change/").text
    assert "Delete this tool…" not in page(viewer, f"{tool}change/").text
    assert viewer.post(f"{tool}remove/", {"confirmed": "1"}).status_code == 403
    asked = sent(operator, f"{tool}remove/")
    assert "Delete programmable?" in asked.text
    assert ToolRecord.objects.filter(pk=record.pk).exists()
    done = sent(operator, f"{tool}remove/", confirmed="1", reason="it is gone")
    assert done.messages == ["programmable is deleted."]
    assert not ToolRecord.objects.filter(pk=record.pk).exists()
    assert Toolset.objects.get().names == ["echo"]
    assert AuditEntry.objects.get(action="tool.delete").reason == "it is gone"


def test_a_tool_with_a_source_is_not_deleted(operator: Client) -> None:
    echo = ToolRecord.objects.get(name="echo")
    assert "Delete this tool…" not in page(operator, f"/admin/tools_app/toolrecord/{echo.pk}/change/").text
    refused = sent(operator, f"/admin/tools_app/toolrecord/{echo.pk}/remove/", confirmed="1")
    assert refused.messages == ["echo cannot be deleted: its source provides it. Switch the tool off instead."]
