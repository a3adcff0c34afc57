"""Trying a tool: a form that helps, a run that can be ended, and never one more than was asked for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SitDown
from tests.browser.desk import Desk
from tests.support.processes import Home

TOOLS = "/admin/tools_app/toolrecord/"


class Lines:
    """What the tool that leaves lines has left, read when asked."""

    def __init__(self, home: Home) -> None:
        self._file = home.path / "lines.txt"

    def count(self, line: str) -> int:
        return self._file.read_text().splitlines().count(line) if self._file.exists() else 0


@pytest.fixture
def lines(home: Home) -> Lines:
    return Lines(home)


def tried(one: Desk, tool: str) -> Page:
    one.open(f"{TOOLS}named/?name={tool}")
    one.page.get_by_role("link", name="Test tool").click()
    one.page.wait_for_url("**/try/**")
    return one.page


def test_a_problem_stands_beside_its_field_and_has_the_focus(chief: Desk) -> None:
    page = tried(chief, "weigh")
    page.get_by_label(re.compile("^grams")).fill("5")
    field = page.get_by_label(re.compile("^what"))
    field.fill("FLOUR 405")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_be_focused()
    expect(page.locator(".hub-console-at-fault .hub-console-wrong")).to_be_visible()
    chief.accessible()


def test_what_is_wrong_with_a_field_further_up_comes_into_sight(chief: Desk) -> None:
    page = tried(chief, "create_workflow")
    for name, value in (("name", "x"), ("connections", "{bad"), ("settings", "{}")):
        # Parts of an object have fields of their own.
        if (field := page.locator(f"[name=argument-{name}]")).count():
            field.fill(value)
    page.get_by_role("button", name=re.compile("^Run")).click()
    expect(page.locator("[name=argument-connections]")).to_be_focused()
    expect(page.get_by_text("Not JSON:").first).to_be_in_viewport()


def test_a_run_by_the_keyboard_alone_shows_its_answer_in_every_form(chief: Desk) -> None:
    page = tried(chief, "weigh")
    page.get_by_label(re.compile("^grams")).focus()
    page.keyboard.type("1500")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="Succeeded")).to_be_focused()
    tabs = page.locator(".hub-sections [role=tablist]").first
    tabs.get_by_role("tab", selected=True).focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(tabs.get_by_role("tab", name="Raw")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel", name="Raw")).to_contain_text("1500")
    expect(page.get_by_role("tabpanel", name="Structured")).to_be_hidden()
    chief.accessible()
    page.locator("a[href*='/call/']", has_text=re.compile("^[0-9a-f-]{32,}$")).first.click()
    expect(page.get_by_text("succeeded").first).to_be_visible()


def test_the_same_call_can_be_copied_for_elsewhere(chief: Desk) -> None:
    page = tried(chief, "weigh")
    page.get_by_label(re.compile("^grams")).fill("7")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()
    copies = page.get_by_role("region", name="Code snippets")
    for title, part in (("curl", "/v1/tools/"), ("Python", "import"), ("toolhub", "calltool weigh")):
        copies.get_by_role("tab", name=re.compile(title, re.IGNORECASE)).first.click()
        expect(copies.get_by_role("tabpanel")).to_contain_text(part)
    chief.context.grant_permissions(["clipboard-read", "clipboard-write"])
    copies.get_by_role("button", name="Copy").click()
    expect(copies.get_by_role("status").filter(has_text="Copied.")).to_be_visible()
    assert "calltool weigh" in page.evaluate("navigator.clipboard.readText()")


def test_every_copy_is_the_call_when_it_is_pasted(chief: Desk, home: Home, key: str) -> None:
    page = tried(chief, "weigh")
    page.get_by_label(re.compile("^grams")).fill("1250")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()
    texts = {one: page.locator(f"#copy-{one}").text_content() or "" for one in ("curl", "python", "mcp", "command")}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**home.environment, "TOOLHUB_KEY": key, "PATH": path}
    answers = {
        one: subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
        for one, command in (
            ("curl", ["sh", "-c", texts["curl"]]),
            ("Python", [sys.executable, "-c", texts["python"]]),
            ("toolhub", ["sh", "-c", texts["command"]]),
        )
    }
    with home.start("runmcp") as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        # Over stdio a message is a line.
        print(texts["mcp"].replace("\n", ""), file=agent.stdin, flush=True)
        answers["MCP"] = agent.stdout.readline()
        agent.stdin.close()
    for one, answer in answers.items():
        assert "1250" in answer, (one, answer)
        assert "error" not in answer.lower().replace("iserror", ""), (one, answer)


def test_a_tool_that_is_off_is_not_offered_to_be_run(chief: Desk) -> None:
    page = tried(chief, "delete_issue")
    expect(page.get_by_text("Not callable.")).to_be_visible()
    expect(page.get_by_text("Ctrl+Enter: run")).to_be_hidden()
    expect(page.get_by_role("button", name="Run", exact=True)).to_have_count(0)


def test_arguments_stay_when_they_are_written_as_json(chief: Desk) -> None:
    page = tried(chief, "weigh")
    page.get_by_label(re.compile("^grams")).fill("250")
    page.get_by_role("button", name="Edit as JSON").click()
    box = page.get_by_label("Arguments (JSON)")
    expect(box).to_be_visible()
    assert json.loads(box.input_value())["grams"] == 250
    box.fill('{"grams": 250, "unit": ')
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".hub-console-wrong").first).to_be_visible()
    box.fill('{"grams": 251, "unit": "kg"}')
    page.get_by_role("button", name="Edit as fields").click()
    expect(page.get_by_label(re.compile("^grams"))).to_have_value("251")


def test_what_writes_asks_first_and_two_presses_run_it_once(chief: Desk, lines: Lines) -> None:
    page = tried(chief, "leave_line")
    page.get_by_label(re.compile("^line")).fill("from the console")
    page.get_by_role("button", name="Run …").click()
    expect(page.get_by_role("heading", name="leave_line writes data. Run it?")).to_be_focused()
    chief.accessible()
    assert lines.count("from the console") == 0
    page.get_by_role("button", name="Run leave_line once").dblclick()
    expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()
    assert lines.count("from the console") == 1


def test_a_confirmation_is_good_for_one_run_without_scripts_too(sit_down: SitDown, lines: Lines) -> None:
    one = sit_down(java_script_enabled=False)
    page = tried(one, "leave_line")
    page.get_by_label(re.compile("^line")).fill("without scripts")
    page.get_by_role("button", name="Run …").click()
    page.get_by_role("button", name="Run leave_line once").click()
    expect(page.get_by_role("heading", name="Succeeded")).to_be_visible()
    page.reload()
    assert lines.count("without scripts") == 1


def test_a_run_is_given_up(chief: Desk) -> None:
    page = tried(chief, "wait_long")
    page.get_by_role("button", name="Run", exact=True).click()
    progress = page.locator("#progress")
    expect(progress).to_contain_text("Running")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    progress.get_by_role("button", name="Cancel").click()
    expect(progress).to_contain_text("Cancelled")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()


def test_a_dry_run_does_nothing(chief: Desk, lines: Lines) -> None:
    page = tried(chief, "leave_line")
    page.get_by_label(re.compile("^line")).fill("dry")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_role("heading", name="Dry run: nothing was executed")).to_be_visible()
    assert lines.count("dry") == 0


def test_a_failure_tells_what_to_do_next(chief: Desk) -> None:
    page = tried(chief, "break_down")
    page.get_by_label(re.compile("^with_words")).fill("no more")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#outcome-title .hub-bad")).to_be_visible()
    expect(page.locator(".hub-console-message")).to_be_visible()
    chief.accessible()
