"""Toolsets in the admin: made, changed and deleted through governance, and what is in them now."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.admin.conftest import browser
from tests.admin.pages import Page, page, sent
from tests.support.state import find_sources_again, rebuild_catalog
from tools_app import governance
from tools_app.catalog import catalog, listed
from tools_app.catalog.entry import FINDERS
from tools_app.models import AuditEntry, Toolset
from tools_app.sources import sync

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tools")]

TOOLSETS = "/admin/tools_app/toolset/"


def ticked(shown: Page, name: str) -> list[str]:
    return [box["value"] for box in shown.all("input", name=name) if "checked" in box.attributes]


def address(name: str, view: str = "change") -> str:
    return f"{TOOLSETS}{Toolset.objects.get(name=name).pk}/{view}/"


def test_a_toolset_is_made_and_shows_what_is_in_it(chief: Client) -> None:
    shown = sent(
        chief, f"{TOOLSETS}add/", name="sums", description="For sums", names=["calculate", "echo", "calculate"]
    )
    assert shown.messages == ["sums saved. Applies from the next call."]
    toolset = Toolset.objects.get()
    assert (toolset.names, toolset.tags, toolset.read_only) == (["calculate", "echo"], [], False)
    assert "Matching tools: 2" in shown.text
    assert "/admin/tools_app/toolrecord/named/?name=calculate" in shown.addresses
    assert "toolhub runmcp --toolset sums" in shown.text
    entry = AuditEntry.objects.get(subject="toolset:sums")
    assert (entry.action, entry.actor) == ("toolset.create", "user:chief")


def test_a_toolset_is_changed_and_keeps_its_name(chief: Client) -> None:
    governance.create_toolset("sums", actor=governance.trusted("test"), names=["calculate"], packs=["builtin"])
    shown = page(chief, address("sums"))
    assert ticked(shown, "names") == ["calculate"]
    assert ticked(shown, "packs") == ["builtin"]
    assert shown.all("input", name="name") == []
    assert [button.text.strip() for button in shown.all("button", name="_save")] == ["Save toolset"]
    changed = sent(chief, address("sums"), name="other", names="echo", read_only="on")
    assert changed.messages == ["sums saved. Applies from the next call."]
    toolset = Toolset.objects.get()
    assert (toolset.name, toolset.packs, toolset.names, toolset.read_only) == ("sums", [], ["echo"], True)
    entry = AuditEntry.objects.get(action="toolset.change")
    assert entry.changes == {
        "packs": [["builtin"], []], "names": [["calculate"], ["echo"]], "read_only": [False, True],
    }  # fmt: skip


def test_what_fits_no_tool_is_said(chief: Client) -> None:
    governance.create_toolset(
        "odd", actor=governance.trusted("test"), packs=["builtin", "x1"], categories=["x2"], tags=["x3"], names=["x4"]
    )
    assert "Selections without a match: x1, x2, x3, x4" in page(chief, address("odd")).text


@pytest.mark.parametrize(
    ("data", "said"),
    [({"name": "Sums!"}, "Lowercase letters"), ({"name": "taken"}, "already exists"), ({"names": "x" * 65}, "1 to 64")],
)
def test_a_toolset_that_makes_no_sense_is_refused(chief: Client, data: dict[str, str], said: str) -> None:
    governance.create_toolset("taken", actor=governance.trusted("test"))
    shown = sent(chief, f"{TOOLSETS}add/", **{"name": "sums", **data})
    assert said in shown.text
    assert Toolset.objects.count() == 1


def test_a_refused_change_shows_what_is(chief: Client) -> None:
    governance.create_toolset("sums", actor=governance.trusted("test"), names=["calculate"])
    shown = sent(chief, address("sums"), names="echo", description="x" * 501)
    assert "Matching tools: 1" in shown.text
    assert "/admin/tools_app/toolrecord/named/?name=calculate" in shown.addresses


def test_a_toolset_is_deleted_unless_a_key_has_it(chief: Client) -> None:
    governance.create_toolset("sums", actor=governance.trusted("test"))
    governance.create_key("agent", actor=governance.trusted("test"), toolsets=["sums"])
    assert [link for link in page(chief, address("sums")).addresses if "/apikey/" in link and "change" in link]
    refused = sent(chief, address("sums", "remove"))
    assert refused.messages[0].startswith("Toolset sums cannot be deleted: it is in use by agent.")
    governance.create_toolset("free", actor=governance.trusted("test"))
    assert sent(chief, address("free", "remove")).messages == ["free is deleted."]
    assert list(Toolset.objects.values_list("name", flat=True)) == ["sums"]
    assert AuditEntry.objects.get(action="toolset.delete").actor == "user:chief"


def test_the_list_says_what_is_in_them_and_who_has_them(chief: Client) -> None:
    assert "No toolsets yet" in page(chief, TOOLSETS).text
    governance.create_toolset(
        "sums", actor=governance.trusted("test"), description="For sums", tags=["a", "b"], names=["echo"]
    )
    governance.create_toolset("all", actor=governance.trusted("test"), read_only=True)
    governance.create_key("agent", actor=governance.trusted("test"), toolsets=["sums"])
    shown = page(chief, TOOLSETS)
    assert "tags: a, b; tools: echo" in shown.text
    assert "all tools read-only" in shown.text
    rows = [" ".join(row.text.split()) for row in shown.all("tr") if "sums" in row.text]
    costs = listed.costs(catalog.current())
    listing = costs["echo"] + costs["read_result"]
    assert f" 1 {listing} none 1 " in rows[0], "one tool, what it costs with its reader, no budget, and one key"


def test_seeing_is_not_changing(chief: Client) -> None:
    governance.create_toolset("sums", actor=governance.trusted("test"), names=["echo"])
    looker = browser("looker", "view_toolset")
    shown = page(looker, address("sums"))
    assert shown.status == 200
    assert shown.all("form", action=address("sums", "remove")) == []
    assert shown.all("button", name="_save") == []
    assert looker.post(address("sums"), {"names": "calculate"}).status_code == 403
    assert looker.post(address("sums", "remove")).status_code == 403
    assert looker.post(f"{TOOLSETS}preview/", {"names": "echo"}).status_code == 403
    assert looker.get(f"{TOOLSETS}add/").status_code == 403
    assert Toolset.objects.get().names == ["echo"]


def test_the_form_offers_what_there_is_with_how_many_tools_it_brings(chief: Client) -> None:
    shown = page(chief, f"{TOOLSETS}add/").text
    for words in ("builtin – 3 tools", "utility – 3 tools", "math – 1 tool", "calculate – Calculate"):
        assert words in shown


def test_what_was_chosen_and_is_gone_stays_until_it_is_taken_out(chief: Client) -> None:
    governance.create_toolset("odd", actor=governance.trusted("test"), packs=["gone"], names=["left", "echo"])
    shown = page(chief, address("odd"))
    assert ticked(shown, "packs") == ["gone"]
    assert ticked(shown, "names") == ["echo", "left"]
    assert "gone – matches no tool" in shown.text
    sent(chief, address("odd"), names=["left", "echo"], packs=["gone"], read_only="on")
    assert (Toolset.objects.get().packs, Toolset.objects.get().names) == (["gone"], ["echo", "left"])


def test_the_tokens_are_those_that_agents_are_sent(
    chief: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed, "SHORT", 0)
    settings.TOOLHUB_PACKS = ("tests.support.packs.small", "tools_app.packs.finding")
    find_sources_again()
    sync.sync()
    rebuild_catalog()
    costs = listed.costs(catalog.current())
    finders = sum(costs[name] for name in FINDERS if name != "call_writing_tool") + costs["read_result"]
    direct = costs["calculate"] + costs["echo"] + costs["read_result"]
    governance.create_toolset("mine", actor=governance.trusted("test"), names=["calculate", "echo"])
    rebuild_catalog()
    assert f"about {direct} tokens to list" in page(chief, address("mine")).text
    governance.change_toolset("mine", actor=governance.trusted("test"), mode="search")
    rebuild_catalog()
    shown = page(chief, address("mine")).text
    assert f"about {direct} tokens to list, {finders:,} in this listing mode" in shown
    assert f">{finders:,}<" in chief.get(TOOLSETS).content.decode()
    preview = page_of(chief, f"{TOOLSETS}preview/", names=["calculate", "echo"], mode="search")
    assert f"an agent receives about {finders:,} tokens." in preview
    assert "an agent receives about" not in page_of(
        chief, f"{TOOLSETS}preview/", names=["calculate", "echo"], mode="direct"
    )
    assert (
        f"Listing all 3 callable tools costs an agent about {direct} tokens"
        in page(chief, "/admin/tools_app/toolrecord/").text
    )


def test_a_preview_says_what_a_choice_would_hold_and_cost(chief: Client) -> None:
    costs = listed.costs(catalog.current())
    shown = page_of(chief, f"{TOOLSETS}preview/", names=["calculate"], tags=["nothing"])
    assert "1 matching tool" in shown
    assert f"costs an agent about {costs['calculate'] + costs['read_result']} tokens" in shown
    assert "read_result is included automatically" in shown
    lean, minimal = (
        page_of(chief, f"{TOOLSETS}preview/", names=["calculate"], detail=detail) for detail in ("lean", "minimal")
    )
    assert "Tokens of the list in each detail: full " in shown
    assert len({*shown.split("costs an agent about")[1:], *minimal.split("costs an agent about")[1:]}) == 2
    assert lean == page_of(chief, f"{TOOLSETS}preview/", names=["calculate"], detail="nonsense")
    assert "Selections without a match: nothing" in shown
    governance.set_enabled(["calculate"], False, actor=governance.trusted("test"))
    rebuild_catalog()  # On PostgreSQL changes count when they are committed, which a test never is.
    shown = page_of(chief, f"{TOOLSETS}preview/", names=["calculate"])
    assert "calculate not callable" in shown
    assert f"costs an agent about {costs['read_result']} tokens" in shown
    assert "an agent receives about" not in shown, "it is what it is sent"
    everything = page_of(chief, f"{TOOLSETS}preview/", read_only="on")
    assert "3 matching tools" in everything
    assert chief.get(f"{TOOLSETS}preview/").status_code == 405
    assert not Toolset.objects.exists()


def test_without_a_script_the_form_shows_the_same_and_saves_nothing(chief: Client) -> None:
    governance.create_toolset("sums", actor=governance.trusted("test"), names=["calculate"])
    for where in (f"{TOOLSETS}add/", address("sums")):
        shown = sent(chief, where, name="other", names=["echo"], description="x", _preview="1")
        assert "1 matching tool" in shown.text
        assert ticked(shown, "names") == ["echo"]
        assert "Please correct" not in shown.text
    assert "Matching tools: 1" in shown.text
    assert [toolset.names for toolset in Toolset.objects.all()] == [["calculate"]]


def test_a_preview_of_nonsense_breaks_nothing_and_is_escaped(chief: Client) -> None:
    for value in ("\x00", "x" * 9_000, "<script>alert(1)</script>"):
        for where in (f"{TOOLSETS}preview/", f"{TOOLSETS}add/"):
            shown = chief.post(where, {"names": value, "packs": value, "_preview": "1"})
            assert shown.status_code == 200
            assert b"<script>alert(1)" not in shown.content


def page_of(browser: Client, where: str, **data: object) -> str:
    """A part of a page, as it is read."""
    return " ".join(Page(f"<body>{browser.post(where, data).content.decode()}</body>").one("body").text.split())
