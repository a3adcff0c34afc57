"""The list of tools with its switches, and the page of a tool."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.admin.conftest import browser, call, days_ago, error_group, failed_call
from tests.admin.pages import Page, page, sent
from tests.support.tools import Hub, Programmable
from tools_app import governance
from tools_app.admin.tool_list import newest_call
from tools_app.catalog import catalog, listed
from tools_app.models import AuditEntry, Definition, Tag, ToolRecord, ToolTag
from tools_app.sdk.errors import ToolNotFoundError
from tools_app.sdk.hints import Hints

pytestmark = pytest.mark.django_db

LIST = "/admin/tools_app/toolrecord/"


def record(name: str, **given: Any) -> ToolRecord:
    return ToolRecord.objects.create(name=name, source_kind="file", pack="own", version="1.0.0", **given)


def address_of(name: str) -> str:
    return f"{LIST}{ToolRecord.objects.get(name=name).pk}/change/"


def row_of(shown: Page, name: str) -> str:
    link = next(link for link in shown.all("a", class_="hub-name") if link.text.strip() == name)
    return " ".join(next(parent for parent in reversed(link.parents) if parent.tag == "tr").text.split())


# ---- the switch


def test_a_press_on_the_switch_turns_the_tool_off_and_on_again(tools: None, operator: Client) -> None:
    shown = page(operator, LIST)
    button = shown.switch("calculate")
    assert button["aria-checked"] == "true"
    shown = sent(operator, button["formaction"], **{button["name"]: button["value"]})
    assert not ToolRecord.objects.get(name="calculate").enabled
    assert shown.messages == ["calculate is off. Calls are refused from now on."]
    entry = AuditEntry.objects.get(action="tool.disable")
    assert (entry.actor, entry.subject) == ("user:operator", "calculate")

    button = shown.switch("calculate")
    assert button["aria-checked"] == "false"
    shown = sent(operator, button["formaction"], **{button["name"]: button["value"]})
    assert ToolRecord.objects.get(name="calculate").enabled
    assert shown.messages == ["calculate is on. Calls are accepted from now on."]


def test_the_switch_stands_in_the_form_that_carries_the_token_against_forgery(tools: None, chief: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = chief.cookies
    shown = page(strict, LIST)
    button = shown.switch("echo")
    form = next(parent for parent in button.parents if parent.tag == "form")
    assert form["method"] == "post"
    assert button["type"] == "submit"
    token = next(field["value"] for field in shown.all("input", name="csrfmiddlewaretoken") if form in field.parents)
    assert strict.post(button["formaction"], {"enabled": "0"}).status_code == 403
    assert ToolRecord.objects.get(name="echo").enabled
    assert sent(strict, button["formaction"], enabled="0", csrfmiddlewaretoken=token).status == 200
    assert not ToolRecord.objects.get(name="echo").enabled


def test_a_press_comes_back_to_the_same_list_with_its_filters(tools: None, operator: Client) -> None:
    button = page(operator, f"{LIST}?q=e&pack=builtin&o=-2").switch("echo")
    response = operator.post(button["formaction"], {"enabled": "0"})
    assert response.headers["Location"] == f"{LIST}?q=e&pack=builtin&o=-2#{button['id']}"


def test_a_press_on_the_page_of_a_tool_stays_there(tools: None, operator: Client) -> None:
    address = address_of("echo")
    shown = page(operator, address)
    form = next(parent for parent in shown.switch("echo").parents if parent.tag == "form")
    response = operator.post(form["action"], {"enabled": "0"})
    assert response.headers["Location"] == address
    assert not ToolRecord.objects.get(name="echo").enabled


def test_pressing_an_outdated_switch_changes_nothing(tools: None, operator: Client) -> None:
    button = page(operator, LIST).switch("echo")
    governance.set_enabled(["echo"], False, actor=governance.trusted("somebody else"))
    shown = sent(operator, button["formaction"], enabled=button["value"])
    assert shown.messages == ["echo was already off."]
    assert AuditEntry.objects.filter(action="tool.disable").count() == 1


def test_the_switch_is_pressed_by_post_alone(tools: None, operator: Client) -> None:
    address = page(operator, LIST).switch("echo")["formaction"]
    for method in (operator.get, operator.put, operator.delete):
        assert method(address).status_code == 405
    assert ToolRecord.objects.get(name="echo").enabled


def test_the_switch_refuses_what_is_neither_on_nor_off(tools: None, operator: Client) -> None:
    address = page(operator, LIST).switch("echo")["formaction"]
    for wrong in ({}, {"enabled": "maybe"}):
        assert operator.post(address, wrong).status_code == 400
    assert ToolRecord.objects.get(name="echo").enabled


def test_whoever_may_only_look_has_no_switch_and_is_refused(tools: None, viewer: Client) -> None:
    shown = page(viewer, LIST)
    assert shown.all("button", role="switch") == []
    assert page(viewer, address_of("echo")).all("button", role="switch") == []
    pk = ToolRecord.objects.get(name="echo").pk
    assert viewer.post(f"{LIST}{pk}/switch/", {"enabled": "0"}).status_code == 403
    assert ToolRecord.objects.get(name="echo").enabled


def test_a_stranger_is_asked_to_log_in(tools: None) -> None:
    pk = ToolRecord.objects.get(name="echo").pk
    response = Client().post(f"{LIST}{pk}/switch/", {"enabled": "0"})
    assert response.status_code == 302
    assert response.headers["Location"].startswith("/admin/login/")
    assert ToolRecord.objects.get(name="echo").enabled


def test_an_unknown_tool_cannot_be_switched(tools: None, operator: Client) -> None:
    assert operator.post(f"{LIST}987654/switch/", {"enabled": "0"}).status_code == 404


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OperationalError("database is locked"), "The database is not writable right now"),
        (ToolNotFoundError.named("echo"), "Tool not found: echo."),
    ],
)
def test_what_goes_wrong_is_said_instead_of_breaking_the_page(
    tools: None, operator: Client, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    button = page(operator, LIST).switch("echo")
    monkeypatch.setattr(governance, "set_enabled", fail)
    monkeypatch.setattr(governance, "change_tool", fail)
    for shown in (
        sent(operator, button["formaction"], enabled="0"),
        sent(operator, address_of("echo"), timeout_ms="500"),
        sent(operator, LIST, action="switch_off", _selected_action=[ToolRecord.objects.get(name="echo").pk]),
    ):
        assert shown.status == 200
        assert len(shown.messages) == 1
        assert shown.messages[0].startswith(said)


# ---- many at once


def test_many_tools_are_switched_at_once(tools: None, operator: Client) -> None:
    governance.set_enabled(["echo"], False, actor=governance.trusted("before"))
    chosen = list(ToolRecord.objects.values_list("pk", flat=True))
    shown = sent(operator, LIST, action="switch_off", _selected_action=chosen)
    assert shown.messages == ["2 tools switched off. 1 tool was already off. Undo"]
    assert not ToolRecord.objects.enabled().exists()
    assert AuditEntry.objects.get(action="tool.disable", subject="calculate").actor == "user:operator"
    shown = sent(operator, LIST, action="switch_on", _selected_action=chosen)
    assert shown.messages == ["3 tools switched on. Undo"]
    assert ToolRecord.objects.enabled().count() == 3
    assert sent(operator, LIST, action="switch_on", _selected_action=chosen).messages == [
        "Nothing changed. 3 tools were already on."
    ]


def test_whoever_may_only_look_has_no_actions(tools: None, viewer: Client) -> None:
    assert page(viewer, LIST).all("select", name="action") == []
    sent(viewer, LIST, action="switch_off", _selected_action=[ToolRecord.objects.get(name="echo").pk])
    assert ToolRecord.objects.get(name="echo").enabled


# ---- the list


def test_every_state_is_said_in_words(tools: None, operator: Client) -> None:
    governance.set_enabled(["echo"], False, actor=governance.trusted("test"))
    record("not_here")
    record("left", retired_at=days_ago(1))
    shown = page(operator, LIST)
    assert row_of(shown, "calculate").startswith("on calculate")
    assert "off" in row_of(shown, "echo")
    assert "not callable this process does not have it" in row_of(shown, "not_here")
    assert "removed" in row_of(shown, "left")
    assert shown.all("button", aria_label="left") == []


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("state=on", {"calculate", "read_result"}),
        ("state=off", {"echo"}),
        ("state=unavailable", {"not_here"}),
        ("state=gone", {"left"}),
        ("state=nonsense", {"calculate", "echo", "read_result", "not_here", "left"}),
        ("pack=own", {"not_here", "left"}),
        ("category=utility", {"calculate", "echo", "read_result"}),
        ("effect=writes", set()),
        ("effect=destroys", {"not_here", "left"}),
        ("effect=nonsense", {"calculate", "echo", "read_result", "not_here", "left"}),
        ("effect=reads", {"calculate", "echo", "read_result"}),
        ("q=Calc", {"calculate"}),
        ("q=subtract", {"calculate"}),
        ("q=math", {"calculate"}),
        ("q=builtin", {"calculate", "echo", "read_result"}),
        ("q=utility two", {"calculate"}),
    ],
)
def test_the_list_is_narrowed_down(tools: None, operator: Client, query: str, names: set[str]) -> None:
    governance.set_enabled(["echo"], False, actor=governance.trusted("test"))
    record("not_here")
    record("left", retired_at=days_ago(1))
    shown = page(operator, f"{LIST}?{query}")
    assert {element.text.strip() for element in shown.all("a", class_="hub-name")} == names


def test_a_tag_leads_to_the_tools_that_have_it(tools: None, operator: Client) -> None:
    shown = page(operator, LIST)
    tag = next(element for element in shown.all("a", class_="hub-tag-link") if element.text.strip() == "math")
    narrowed = page(operator, f"{LIST}{tag['href']}")
    assert [element.text.strip() for element in narrowed.all("a", class_="hub-name")] == ["calculate"]


def test_the_tabs_count_what_the_list_shows(tools: None, operator: Client) -> None:
    governance.set_enabled(["echo"], False, actor=governance.trusted("test"))
    record("not_here")
    tabs = next(nav for nav in page(operator, LIST).all("nav", class_="hub-tabs"))
    assert tabs.text.split() == ["All", "4", "On", "2", "Off", "1", "Not", "callable", "1"]


def test_the_list_tells_how_each_tool_does(tools: None, operator: Client) -> None:
    call("calculate")
    call("calculate", days_ago(2))
    failed_call("calculate")
    shown = page(operator, LIST)
    tokens = listed.costs(catalog.current())
    assert row_of(shown, "calculate").endswith(f"2 1 1 of 2, 50.0% ≤ 10 ms {tokens['calculate']} just now")
    assert row_of(shown, "echo").endswith(f"0 0 – {tokens['echo']} –")
    calls = page(operator, next(link for link in shown.addresses if "/call/?tool=calculate" in link))
    assert len(calls.all("tr", class_="data-row")) == 2
    [errors] = [link for link in shown.addresses if "tool=calculate&status=error" in link]
    assert len(page(operator, errors).all("tr", class_="data-row")) == 1


def test_the_list_and_the_overview_tell_the_same_error_rate(tools: None, operator: Client) -> None:
    for status, code in (("succeeded", ""), ("refused", "VALIDATION_ERROR"), ("refused", "TOOL_DISABLED")):
        call("calculate", status=status, code=code)
    failed_call("calculate")
    # Of two that were let in, one failed.
    assert "4 1 1 of 2, 50.0%" in row_of(page(operator, LIST), "calculate")
    assert "4 1 1 of 2, 50.0%" in " ".join(page(operator, "/admin/").text.split())
    for _ in range(3):
        call("echo")
    failed_call("echo")
    by_rate = next(link for link in page(operator, LIST).all("a") if link.text.strip() == "Errors (24 h)")["href"]
    names = [name.text.strip() for name in page(operator, f"{LIST}{by_rate}").all("a", class_="hub-name")]
    assert names[:2] == ["calculate", "echo"]


def test_an_empty_field_of_the_policy_says_what_holds_without_it(tools: None, operator: Client) -> None:
    governance.set_policy("calculate", {"timeout_ms": 5_000}, actor=governance.trusted("test"))
    shown = page(operator, address_of("calculate"))
    assert shown.one("input", name="timeout_ms")["value"] == "5000"
    assert shown.one("input", name="timeout_ms")["placeholder"] == "30000"
    assert shown.one("input", name="retries")["placeholder"] == "0"
    assert shown.one("input", name="rate_calls")["placeholder"] == "1000"


def test_the_list_is_sorted_by_its_figures(tools: None, operator: Client) -> None:
    call("calculate", count=2)
    failed_call("echo", duration_ms=700)
    dearest = max(listed.costs(catalog.current()).items(), key=lambda one: one[1])[0]
    for column, first in (
        ("Calls (24 h)", "calculate"),
        ("Errors (24 h)", "echo"),
        ("P95 (24 h)", "echo"),
        ("Tokens", dearest),
        ("Last call", "echo"),
    ):
        header = next(link for link in page(operator, LIST).all("a") if link.text.strip() == column)
        shown = page(operator, f"{LIST}{header['href']}")
        assert shown.all("a", class_="hub-name")[0].text.strip() == first, column


def test_errors_lead_to_the_error_log_where_calls_may_not_be_seen(tools: None) -> None:
    failed_call("calculate")
    doctor = browser("doctor", "view_toolrecord", "view_errorlog")
    for address in (LIST, address_of("calculate")):
        shown = page(doctor, address)
        [errors] = {link for link in shown.addresses if "since=24h" in link}
        assert errors == "/admin/tools_app/errorlog/?tool=calculate&since=24h"
        assert len(page(doctor, errors).all("tr", class_="data-row")) == 1


def test_the_page_estimates_how_long_calls_take(tools: None, viewer: Client) -> None:
    for took in (*[8] * 18, 240, 20_000):
        call("calculate", duration_ms=took)
    call("echo", duration_ms=20_000)
    call("calculate", duration_ms=0, status="refused", code="RATE_LIMIT_EXCEEDED", count=50)
    shown = page(viewer, address_of("calculate")).text
    assert "Calls (24 h) 70" in shown
    assert "Median (24 h) ≤ 10 ms" in shown
    assert "p95 (24 h) ≤ 250 ms" in shown
    assert "Median (24 h) > 10 s" in page(viewer, address_of("echo")).text


def test_without_calls_nothing_is_estimated(tools: None, viewer: Client) -> None:
    assert "Median (24 h)" not in page(viewer, address_of("calculate")).text


def test_figures_are_hidden_from_whoever_may_not_see_what_is_behind_them(tools: None) -> None:
    call("calculate")
    failed_call("calculate")
    shown = page(browser("porter", "view_toolrecord"), LIST)
    assert "Calls (24 h)" not in shown.text
    assert "Errors (24 h)" not in shown.text
    shown = page(browser("guard", "view_toolrecord"), address_of("calculate"))
    assert "Recent calls" not in shown.text
    assert "Recent errors" not in shown.text
    assert "History" not in shown.text


def test_more_tools_cost_no_more_queries(tools: None, operator: Client) -> None:
    def queries(count: int) -> int:
        for number in range(ToolRecord.objects.count(), count):
            made = record(f"tool_{number}")
            tag, _ = Tag.objects.get_or_create(name=f"tag_{number % 7}")
            ToolTag.objects.create(tool=made, tag=tag)
            call(made.name)
        page(operator, LIST)
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert len(page(operator, LIST).all("a", class_="hub-name")) == count
        return len(captured)

    few, many = queries(5), queries(50)
    assert many == few
    assert few <= 19


def test_nothing_is_added_or_deleted(tools: None, chief: Client) -> None:
    address = address_of("echo")
    for shown in (page(chief, LIST), page(chief, address)):
        assert [link for link in shown.addresses if link.endswith(("/add/", "/delete/"))] == []
    for refused in (f"{LIST}add/", address.replace("change", "delete")):
        assert chief.get(refused).status_code == 403
        assert chief.post(refused, {"post": "yes"}).status_code == 403
    assert ToolRecord.objects.filter(name="echo").exists()


# ---- the page of a tool


def test_the_page_shows_what_an_agent_sees(tools: None, viewer: Client) -> None:
    shown = page(viewer, address_of("calculate"))
    assert "Add, subtract, multiply or divide two numbers." in shown.text
    assert "Read-only: changes nothing" in shown.text
    table = shown.all("table", class_="hub-table")[0]
    assert "operation string yes one of add, subtract, multiply, divide What to do" in " ".join(table.text.split())
    assert '"additionalProperties": false' in shown.text
    assert "Add two numbers" in shown.text
    assert "Search keywords" in shown.text
    assert "消費税" in shown.text, "what authors say it is looked for by"


def test_the_page_shows_a_picture_that_is_carried_along_and_fetches_none(tools: None, viewer: Client) -> None:
    inline = "data:image/svg+xml;base64,PHN2Zy8+"
    for name, icon in (("near", inline), ("far", "https://cdn.test/a.svg")):
        Hub().add(Programmable(name, icon=icon).tool)
    assert [image["src"] for image in page(viewer, address_of("near")).all("img", class_="hub-icon")] == [inline]
    assert page(viewer, address_of("far")).all("img", class_="hub-icon") == []
    assert "cdn.test" not in page(viewer, address_of("far")).all("section", class_="hub-head")[0].text


def test_the_page_is_found_by_the_name_that_journals_keep(tools: None, viewer: Client) -> None:
    for name in ("calculate", "cal-culate"):
        ToolRecord.objects.get_or_create(name="cal_culate", source_kind="file")
        response = viewer.get(f"{LIST}named/?name={name}")
        expected = {"calculate": "calculate", "cal-culate": "cal_culate"}[name]
        assert response.headers["Location"] == address_of(expected)
    assert page(viewer, f"{LIST}named/?name=nobody").messages == ["There is no tool named nobody."]
    assert browser("nobody").get(f"{LIST}named/?name=calculate").status_code == 403


def test_the_page_says_what_applies_and_who_decided_it(tools: None, operator: Client) -> None:
    address = address_of("echo")
    assert "Time limit 30,000 ms hub default" in page(operator, address).text
    shown = sent(operator, address, timeout_ms="7500", retries="2", rate_calls="5", rate_seconds="60")
    assert shown.messages == ["echo saved. Applies from the next call."]
    for words in ("Time limit 7,500 ms set here", "Retries 2 set here", "Calls per caller 5 per 60 s set here"):
        assert words in shown.text
    entry = AuditEntry.objects.get(action="tool.policy")
    assert (entry.actor, entry.changes["retries"]) == ("user:operator", [None, 2])
    sent(operator, address, timeout_ms="")
    echo = ToolRecord.objects.get(name="echo")
    assert (echo.timeout_ms, echo.retries, echo.rate_calls) == (None, None, None)


def test_half_a_rate_limit_is_refused_in_words(tools: None, operator: Client) -> None:
    shown = sent(operator, address_of("echo"), rate_calls="5")
    assert "Set both the number of calls and the period" in shown.text
    assert ToolRecord.objects.get(name="echo").rate_calls is None


@pytest.mark.parametrize("wrong", ["99", "120001", "-5", "soon", "1.5"])
def test_a_time_limit_out_of_bounds_is_refused_in_words(tools: None, operator: Client, wrong: str) -> None:
    shown = sent(operator, address_of("echo"), timeout_ms=wrong)
    assert "Please correct the error" in shown.text
    assert "Time limit 30,000 ms hub default" in shown.text
    assert ToolRecord.objects.get(name="echo").timeout_ms is None
    assert not AuditEntry.objects.filter(action="tool.policy").exists()


def test_nothing_but_the_policy_can_be_sent(tools: None, operator: Client) -> None:
    sent(operator, address_of("echo"), timeout_ms="500", enabled="", name="renamed", description="changed", pack="x")
    echo = ToolRecord.objects.get(name="echo")
    assert (echo.timeout_ms, echo.enabled, echo.pack) == (500, True, "builtin")
    assert echo.description.startswith("Echo back")


def test_whoever_may_only_look_cannot_set_a_time_limit(tools: None, viewer: Client) -> None:
    assert page(viewer, address_of("echo")).all("input", name="timeout_ms") == []
    assert viewer.post(address_of("echo"), {"timeout_ms": "500"}).status_code == 403
    assert ToolRecord.objects.get(name="echo").timeout_ms is None


def test_the_page_leads_to_its_calls_errors_and_changes(tools: None, operator: Client) -> None:
    done = call("echo")
    failed, error = failed_call("echo", message="It broke")
    governance.set_policy("echo", {"timeout_ms": 900}, actor=governance.trusted("user:somebody"), reason="slow lines")
    shown = page(operator, address_of("echo"))
    for address in (
        f"/admin/tools_app/call/{done.pk}/change/",
        f"/admin/tools_app/call/{failed.pk}/change/",
        f"/admin/tools_app/errorlog/{error.pk}/change/",
    ):
        assert address in shown.addresses
    assert "It broke" in shown.text
    assert "timeout_ms: 900 by user:somebody: slow lines" in shown.text


def test_the_page_tells_what_a_new_definition_changed(tools: None, viewer: Client) -> None:
    echo = ToolRecord.objects.get(name="echo")
    assert echo.definition is not None
    old = {**echo.definition.body, "version": "0.9.0", "description": "Says it again."}
    Definition.objects.create(tool=echo, hash="0" * 64, version="0.9.0", body=old, first_seen_at=days_ago(3))
    shown = page(viewer, address_of("echo"))
    assert "changed Version 0.9.0 → 1.0.0" in shown.text
    removed = [element.text.strip() for element in shown.all("span", class_="hub-removed")]
    assert "-Says it again." in removed
    assert '-  "description": "Says it again.",' in removed
    assert '-  "version": "0.9.0"' in removed


def test_a_tool_that_this_process_lacks_says_so_and_keeps_its_last_definition(operator: Client) -> None:
    made = record("elsewhere", description="Lives elsewhere.")
    body = {"description": "Lives elsewhere, as agents saw it.", "inputSchema": {"type": "object", "properties": {}}}
    made.definition = Definition.objects.create(tool=made, hash="1" * 64, version="1.0.0", body=body)
    made.save()
    shown = page(operator, address_of("elsewhere"))
    assert "not callable this process does not have it." in shown.text
    assert "toolhub synctools" in shown.text
    assert "Lives elsewhere, as agents saw it." in shown.text
    assert "No parameters." in shown.text


def test_switching_on_a_tool_that_cannot_be_called_says_why(operator: Client) -> None:
    made = record("elsewhere", enabled=False)
    shown = sent(operator, f"{LIST}{made.pk}/switch/", enabled="1")
    assert shown.messages == ["elsewhere is on, but not callable: this process does not have it."]


def test_a_tool_that_only_adds_is_told_from_one_that_may_destroy(hub: Hub, operator: Client) -> None:
    hub.add(Programmable("adds", hints=Hints(destructive=False)).tool, Programmable("wipes", hints=Hints()).tool)
    shown = {
        effect: {link.text.strip() for link in page(operator, f"{LIST}?effect={effect}").all("a", class_="hub-name")}
        for effect in ("writes", "destroys")
    }
    assert shown == {"writes": {"adds"}, "destroys": {"wipes"}}
    assert "1.0.0 · write " in row_of(page(operator, LIST), "adds")


def test_the_last_call_is_found_without_reading_the_journal(tools: None) -> None:
    for number in range(50):
        call("echo", days_ago(number))
    rows = ToolRecord.objects.order_by().annotate(last=newest_call()).values("last")
    sql, parameters = rows.query.sql_with_params()
    with connection.cursor() as cursor:
        explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"{explain} {sql}", parameters)
        plan = " ".join(str(part) for row in cursor.fetchall() for part in row)
    assert "call_of_tool" in plan
    assert "SORT" not in plan.upper()
    assert "TEMP B-TREE" not in plan


def test_the_list_says_what_listing_everything_costs(tools: None, viewer: Client) -> None:
    costs = listed.costs(catalog.current())
    said = f"Listing all {len(costs)} callable tools costs an agent about {sum(costs.values()):,} tokens."
    assert said in page(viewer, LIST).text


def test_the_page_shows_the_tool_exactly_as_it_is_listed(tools: None, viewer: Client) -> None:
    shown = page(viewer, address_of("echo"))
    entry = catalog.current().find("echo")
    assert entry is not None
    wire = [element.text for element in shown.all("pre") if '"toolhub/version"' in element.text]
    assert [json.loads(text) for text in wire] == [listed.as_listed(entry)]
    assert f"about {listed.costs(catalog.current())['echo']} tokens when listed" in shown.text
    parts = listed.costs_of_parts(entry)
    assert f"Name, description and parameters: {parts['read']}; output schema: {parts['answers']};" in shown.text


def test_the_page_draws_a_day_a_week_or_a_month(tools: None, viewer: Client) -> None:
    call("echo", days_ago(3))
    address = address_of("echo")
    assert "No data for this period." in page(viewer, address).text
    for span, rows in (("7d", 28), ("30d", 30)):
        shown = page(viewer, f"{address}?span={span}")
        [table] = [one for one in shown.all("table") if "Succeeded" in one.text]
        assert len([row for row in shown.all("tr") if table in row.parents]) == rows + 1
        assert "1 call, 0 errors" in shown.text
    assert page(viewer, f"{address}?span=nonsense").status == 200


def test_the_page_says_who_can_use_the_tool(tools: None, chief: Client) -> None:
    governance.create_toolset("sums", actor=governance.trusted("test"), names=["calculate"])
    governance.create_toolset("words", actor=governance.trusted("test"), names=["echo"])
    governance.create_key("all", actor=governance.trusted("test"))
    governance.create_key("adder", actor=governance.trusted("test"), toolsets=["sums"])
    governance.create_key("looker", actor=governance.trusted("test"), scopes=["tools:list"])
    governance.revoke_key(
        governance.create_key("gone", actor=governance.trusted("test"))[0], actor=governance.trusted("test")
    )
    shown = page(chief, address_of("echo")).text
    assert "Toolsets with this tool words" in shown
    assert "API keys with access all looker cannot call tools 1 other key has no access." in shown
    guard = browser("guard", "view_toolrecord")
    assert page(guard, address_of("echo")).text.count("Visible to administrators.") == 2


def test_a_key_that_may_not_write_is_said_to_be_kept_from_a_tool_that_does(hub: Hub, chief: Client) -> None:
    hub.add(Programmable("wipes", hints=Hints()).tool)
    governance.create_key("reader", actor=governance.trusted("test"), may_write=False)
    assert "API keys with access reader cannot use tools that write" in page(chief, address_of("wipes")).text


def test_the_page_leads_to_the_open_kinds_of_errors(tools: None, viewer: Client) -> None:
    group = error_group("echo", message="It broke again", count=7)
    error_group("echo", message="It was mended", resolved_at=days_ago(0))
    shown = page(viewer, address_of("echo"))
    assert f"/admin/tools_app/errorgroup/{group.pk}/change/" in shown.addresses
    assert "It broke again" in shown.text
    assert "It was mended" not in shown.text


def test_the_page_leads_to_its_own_parts(tools: None, chief: Client) -> None:
    shown = page(chief, address_of("echo"))
    [contents] = shown.all("nav", class_="hub-contents")
    wanted = {link["href"][1:] for link in shown.all("a") if contents in link.parents}
    assert wanted <= {element.attributes.get("id") for element in shown.elements}
    assert {"seen", "policy", "figures", "ways", "versions", "changes"} <= wanted


def test_a_page_costs_the_same_however_many_keys_there_are(tools: None, chief: Client) -> None:
    address = address_of("echo")

    def queries(count: int) -> int:
        for number in range(count):
            governance.create_key(f"key-{count}-{number}", actor=governance.trusted("test"))
        page(chief, address)
        with CaptureQueriesContext(connection) as captured:
            page(chief, address)
        return len(captured)

    assert queries(1) == queries(20)


def test_an_empty_list_says_how_tools_come(operator: Client) -> None:
    shown = page(operator, LIST)
    assert "No tools yet" in shown.text
    assert "toolhub synctools" in shown.text
    assert "No tools yet" not in page(operator, f"{LIST}?q=anything").text
