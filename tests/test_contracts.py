"""`toolhub checktools`: the examples of tools, run through the engine, and what is remembered of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import call_command

from tests.support.tools import Hub
from toolhub import ConnectionKind, Context, Pack, testing
from toolhub.testing.upstream import SECRET
from tools_app import governance, sources
from tools_app.models import Call, ErrorLog, ToolCheck
from tools_app.sdk.decorator import FunctionTool, tool
from tools_app.sdk.errors import NotFoundError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

pytestmark = pytest.mark.django_db(transaction=True)


def weather(name: str = "weather", *, read_only: bool = True, **expected: Any) -> FunctionTool:
    def run(city: str) -> dict[str, Any]:
        """Tell the weather."""
        if city == "nowhere":
            raise NotFoundError("City 'nowhere' not found")
        return {"city": city, "degrees": 21.5}

    examples = [Example(f"In {city}", {"city": city}, result) for city, result in expected.items()]
    return tool(name=name, hints=Hints(read_only=read_only), examples=examples)(run)


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    """As processes of their own, commands are quiet to their end."""
    log = logging.getLogger("tools_app")
    level = log.level
    yield
    log.setLevel(level)


@pytest.fixture
def checktools(capsys: pytest.CaptureFixture[str]):
    def run(*arguments: str) -> tuple[int, str]:
        code = 0
        try:
            call_command("checktools", *arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        return code, capsys.readouterr().out

    return run


def test_examples_that_hold_pass_and_are_remembered(hub: Hub, checktools: Any) -> None:
    hub.add(weather(kyoto={"degrees": "<number>"}, rome=None))
    code, told = checktools("weather")
    assert (code, told.splitlines()[0]) == (0, "ok weather: 2 examples")
    assert told.splitlines()[-1] == "1 tool tested, all passed; 0 skipped."
    kept = ToolCheck.objects.get(tool__name="weather")
    assert (kept.passed, kept.examples, kept.faults) == (True, 2, [])
    assert kept.definition_hash == hub.loaded("weather").spec.hash
    assert Call.objects.filter(tool_name="weather", door="command").count() == 2


def test_drift_fails_the_run_and_is_an_error_on_record(hub: Hub, checktools: Any) -> None:
    hub.add(weather(kyoto={"degrees": "<string>"}, nowhere=None))
    code, told = checktools("weather", "--json")
    assert code == 1
    (report,) = json.loads(told)["tools"]
    assert report["examples"][0]["faults"] == ["result.degrees: expected <string>, got 21.5"]
    assert report["examples"][1]["faults"] == ["NOT_FOUND: City 'nowhere' not found"]
    (drift,) = ErrorLog.objects.filter(code="CONTRACT_BROKEN")
    assert drift.tool_name == "weather"
    assert "expected <string>, got 21.5" in drift.detail
    kept = ToolCheck.objects.get()
    assert not kept.passed
    assert len(kept.faults) == 2
    hub.add(weather("other", kyoto=None))
    checktools("other")
    assert ToolCheck.objects.count() == 2


def test_what_writes_is_left_alone_unless_that_is_asked_for(hub: Hub, checktools: Any) -> None:
    hub.add(weather("writer", read_only=False, kyoto=None))
    code, told = checktools("writer")
    assert (code, told.splitlines()[0]) == (1, "-- writer: it writes")
    assert not Call.objects.filter(tool_name="writer").exists()
    assert checktools("writer", "--write")[0] == 0
    assert checktools("--write")[0] == 2, "of everything that there is, nothing is changed by the way"
    assert Call.objects.filter(tool_name="writer").count() == 1


def test_a_tool_that_cannot_be_tried_is_reported(hub: Hub, checktools: Any, capsys: pytest.CaptureFixture[str]) -> None:
    hub.add(weather("bare"), weather("off", kyoto=None))
    governance.set_enabled(["off"], False, actor=governance.trusted("test"))
    code, told = checktools()
    assert code == 0, "what nobody asked for by name may be left out"
    assert "-- bare: it has no examples that can be run" in told
    assert "-- off: switched off by an operator" in told
    assert checktools("nothing")[0] == 2


LARDER = Pack(
    "larder",
    connection=ConnectionKind("Larder", url_variable="LARDER_URL", secret_variable="LARDER_KEY", header="X-Key"),
)


@LARDER.tool(
    hints=Hints(read_only=True),
    examples=[
        Example("Eggs", {"what": "eggs"}, {"left": "<integer>"}),
        Example("None", {"what": "x"}, shown_only=True),
    ],
)
async def left_of(ctx: Context, what: str) -> Any:
    """Tell what is left."""
    return await ctx.http.get("stock", what, operation="look", resource="Stock")


def test_against_a_fake_and_against_an_account_that_operators_set_up(hub: Hub, checktools: Any) -> None:
    with testing.fake_upstream({"GET /stock/eggs": {"left": 6}}, pack=LARDER) as upstream:
        hub.add(left_of)
        assert checktools("left_of") == (
            0,
            "ok left_of: 1 example\n\n1 tool tested, all passed; 0 skipped.\n",
        )
        upstream.on("GET /stock/eggs", {"left": "six"})
        code, told = checktools("left_of")
        assert (code, told.splitlines()[1].strip()) == (1, 'Eggs: result.left: expected <integer>, got "six"')
        assert told.splitlines()[-1] == "1 tool tested, 1 failed; 0 skipped."
        upstream.on("GET /stock/eggs", testing.Reply(500))
        assert "Eggs: API_ERROR: Failed to look" in checktools("left_of")[1]
        assert set(ErrorLog.objects.values_list("code", flat=True)) == {"CONTRACT_BROKEN", "API_ERROR"}
        upstream.on("GET /stock/eggs", {"left": 5})
        governance.create_connection(
            "cellar", pack="larder", url=upstream.url, secret=SECRET, allow_http=True, actor=governance.trusted("test")
        )
        assert checktools("left_of", "--connection", "cellar")[0] == 0
    assert checktools("left_of", "--connection", "cellar")[0] == 1, "that account leads nowhere any more"


def test_a_tool_that_is_not_recorded_yet_is_recorded_first(checktools: Any) -> None:
    sources.current().code.loaded().add(weather("newcomer", kyoto={"degrees": "<number>"}))
    assert checktools("newcomer")[0] == 0


def test_calltool_says_why_a_tool_cannot_be_called(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.add(tool(name="top", dependencies=["base ^2"], description="Top.")(lambda: 1))
    with pytest.raises(SystemExit) as ended:
        call_command("calltool", "top")
    assert ended.value.code == 3
    told = "toolhub: Tool is disabled: top: it needs base ^2, which does not exist. Ask an operator to add that tool."
    assert capsys.readouterr().err.strip() == told
