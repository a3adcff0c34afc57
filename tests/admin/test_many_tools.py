"""What is done to many tools at once, the question before it and the way back."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.admin.conftest import days_ago
from tests.admin.pages import Page, page, sent
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.models import AuditEntry, ToolRecord, ToolTag

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("tools")]

LIST = "/admin/tools_app/toolrecord/"
MANY = f"{LIST}many/"


def pks(*names: str) -> list[int]:
    return [ToolRecord.objects.get(name=name).pk for name in names]


def many(count: int) -> list[int]:
    return [ToolRecord.objects.create(name=f"tool_{number:02}", source_kind="file").pk for number in range(count)]


def answered(browser: Client, shown: Page, **data: str) -> Page:
    """The form of the question, sent as it stands."""
    form = next(one for one in shown.all("form") if "/many/" in one["action"])
    fields = {field["name"]: field.attributes.get("value", "") for field in shown.all("input") if form in field.parents}
    return sent(browser, form["action"], **fields | data)


def test_more_than_a_few_are_switched_off_only_after_a_question(operator: Client) -> None:
    chosen = many(11)
    shown = sent(operator, f"{LIST}?q=tool_", action="switch_off", _selected_action=chosen)
    assert "Switch off 11 tools?" in shown.text
    assert ToolRecord.objects.filter(pk__in=chosen).enabled().count() == 11
    assert f"{LIST}?q=tool_" in shown.addresses
    done = answered(operator, shown, reason="the tracker is being moved")
    assert done.messages == ["11 tools switched off. Undo"]
    assert not ToolRecord.objects.filter(pk__in=chosen).enabled().exists()
    entry = AuditEntry.objects.filter(action="tool.disable")[0]
    assert (entry.actor, entry.reason) == ("user:operator", "the tracker is being moved")


def test_a_question_is_answered_for_the_tools_that_it_named(operator: Client) -> None:
    shown = sent(operator, LIST, action="switch_off", select_across="1", _selected_action=many(11))
    late = ToolRecord.objects.create(name="late", source_kind="file")
    answered(operator, shown)
    late.refresh_from_db()
    assert late.enabled


def test_an_undo_leads_back_to_what_was_and_to_the_list_as_it_was(operator: Client) -> None:
    governance.set_enabled(["echo"], False, actor=governance.trusted("before"))
    shown = sent(operator, f"{LIST}?q=e", action="switch_off", _selected_action=pks("echo", "calculate"))
    [undo] = [link for link in shown.addresses if link.startswith(MANY)]
    asked = page(operator, undo)
    assert "Switch on 1 tool?" in asked.text
    assert not ToolRecord.objects.get(name="calculate").enabled
    form = next(one for one in asked.all("form") if "/many/" in one["action"])
    response = operator.post(form["action"], {"change": "on", "tools": str(pks("calculate")[0])})
    assert response.headers["Location"] == f"{LIST}?q=e"
    assert ToolRecord.objects.get(name="calculate").enabled
    assert not ToolRecord.objects.get(name="echo").enabled


def test_tags_are_given_and_taken_from_the_list(operator: Client) -> None:
    shown = sent(operator, LIST, action="add_tag", _selected_action=pks("echo", "calculate"))
    assert "Add a tag to 2 tools?" in shown.text
    done = answered(operator, shown, tag="night")
    assert done.messages == ["2 tools tagged night. Undo"]
    assert ToolTag.objects.filter(tag__name="night", declared=False).count() == 2

    shown = sent(operator, LIST, action="remove_tag", _selected_action=pks("echo", "read_result"))
    assert [option["value"] for option in shown.all("option") if "hub" not in option.text][-1] == "night"
    done = answered(operator, shown, tag="night")
    assert done.messages == ["night removed from 1 tool. 1 tool did not have the tag night. Undo"]
    [undo] = [link for link in done.addresses if link.startswith(MANY)]
    assert answered(operator, page(operator, undo)).messages == ["1 tool tagged night. Undo"]


def test_a_declared_tag_is_said_to_stay(operator: Client) -> None:
    shown = sent(operator, LIST, action="remove_tag", _selected_action=pks("calculate"))
    done = answered(operator, shown, tag="math")
    assert done.messages == ["Nothing changed. 1 tool keeps the tag: it is declared by its author."]


def test_a_tag_that_is_none_is_refused_in_words(operator: Client) -> None:
    shown = sent(operator, LIST, action="add_tag", _selected_action=pks("echo"))
    assert answered(operator, shown, tag="a,b").messages[0].startswith("A tag must not contain commas")
    assert answered(operator, shown, tag="  ").messages[0].startswith("A tag has 1 to 64 characters")


def test_what_others_need_is_not_switched_off_unasked(hub: Hub, operator: Client) -> None:
    hub.add(Programmable("clock").tool, Programmable("alarm", dependencies=["clock"]).tool)
    button = page(operator, LIST).switch("clock")
    shown = sent(operator, button["formaction"], enabled="0")
    assert "Enabled tools that require some of these: alarm requires clock" in shown.text
    assert ToolRecord.objects.get(name="clock").enabled
    assert answered(operator, shown).messages == ["1 tool switched off. Undo"]
    assert not ToolRecord.objects.get(name="clock").enabled
    governance.set_enabled(["clock"], True, actor=governance.trusted("test"))
    both = sent(operator, LIST, action="switch_off", _selected_action=pks("clock", "alarm"))
    assert both.messages == ["2 tools switched off. Undo"]


def test_the_page_of_a_tool_asks_too_and_names_both_sides(hub: Hub, operator: Client) -> None:
    hub.add(Programmable("clock").tool, Programmable("alarm", dependencies=["clock"]).tool)
    [clock, alarm] = pks("clock", "alarm")
    assert "Required by alarm" in page(operator, f"{LIST}{clock}/change/").text
    assert "Requires clock" in page(operator, f"{LIST}{alarm}/change/").text
    shown = sent(operator, f"{LIST}{clock}/switch/?page=1", enabled="0")
    assert "alarm requires clock" in shown.text
    assert f"{LIST}{clock}/change/" in shown.addresses
    form = next(one for one in shown.all("form") if "/many/" in one["action"])
    response = operator.post(form["action"], {"change": "off", "tools": str(clock)})
    assert response.headers["Location"] == f"{LIST}{clock}/change/"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"change": "off"},
        {"change": "burn", "tools": "1"},
        {"change": "off", "tools": "1,,2"},
        {"change": "off", "tools": "1;DROP"},
        {"change": "off", "tools": "٣"},
        {"change": "off", "tools": "9" * 40},
        {"change": "off", "tools": ",".join(["1"] * 10_001)},
    ],
)
def test_what_makes_no_sense_is_refused(operator: Client, wrong: dict[str, str]) -> None:
    assert operator.post(MANY, wrong).status_code == 400
    if len(str(wrong)) < 1_000:
        assert operator.get(MANY, wrong).status_code == 400


def test_tools_that_are_not_there_are_none(operator: Client) -> None:
    shown = sent(operator, MANY, change="off", tools="987654")
    assert shown.messages == ["Nothing changed."]


def test_whoever_may_only_look_is_refused(viewer: Client) -> None:
    [echo] = pks("echo")
    assert viewer.get(MANY, {"change": "off", "tools": str(echo)}).status_code == 403
    assert viewer.post(MANY, {"change": "off", "tools": str(echo)}).status_code == 403
    assert ToolRecord.objects.get(name="echo").enabled


def test_what_somebody_is_asked_is_escaped(operator: Client) -> None:
    [echo] = pks("echo")
    shown = page(operator, MANY, change="tag", tools=str(echo), tag='"><script>alert(1)</script>')
    assert "<script>alert(1)" not in shown.html
    gone = ToolRecord.objects.create(name="left", source_kind="file", retired_at=days_ago(1))
    assert "Switch off 1 tool?" in page(operator, MANY, change="off", tools=str(gone.pk)).text
