"""What every tool that ships must keep, whichever pack it is in. A new tool is checked without another line."""

from __future__ import annotations

import json

import pytest
from django.test import override_settings

from toolhub import testing
from tools_app import conf
from tools_app.catalog import READER
from tools_app.offer import Offer
from tools_app.registry import Registry
from tools_app.schemas import faults
from tools_app.sources import python
from tools_app.tool import NAME, Tool


def everything() -> Registry:
    """What the hub ships, of which other tests have a part only."""
    registry = Registry()
    with override_settings(TOOLHUB_PACKS=conf.DEFAULTS["TOOLHUB_PACKS"]):
        python.load(registry)
    return registry


SHIPPED = everything()


def shipped() -> list[Tool]:
    return [loaded.tool for loaded in SHIPPED]


def test_ships_exactly_these_tools() -> None:
    assert {loaded.tool.name: loaded.pack for loaded in SHIPPED} == {
        "calculate": "builtin",
        "echo": "builtin",
        "read_result": "builtin",
        "instant_answer": "websearch",
        "read_page": "websearch",
        "web_search": "websearch",
    }
    assert SHIPPED.problems == []


@pytest.mark.parametrize("tool", shipped(), ids=lambda tool: tool.name)
class TestEveryTool:
    def test_reads_well_to_an_agent(self, tool: Tool) -> None:
        assert testing.findings(tool) == []

    def test_has_a_schema_that_every_client_takes(self, tool: Tool) -> None:
        assert NAME.fullmatch(tool.name)
        assert faults(tool.input_schema) == []
        assert tool.input_schema["additionalProperties"] is False
        assert "$ref" not in json.dumps(tool.input_schema)

    def test_has_an_implementation(self, tool: Tool) -> None:
        assert callable(tool.run)
        assert type(tool).run is not Tool.run

    def test_refuses_unknown_parameters(self, tool: Tool) -> None:
        problems = tool.checker.problems({"no_such_parameter": 1})
        assert "Unknown parameter: no_such_parameter" in {problem.message for problem in problems}

    def test_keeps_its_identity_from_one_process_to_the_next(self, tool: Tool) -> None:
        again = json.loads(json.dumps(tool.definition(), sort_keys=True))
        assert json.dumps(again, sort_keys=True) == json.dumps(tool.definition(), sort_keys=True)
        assert len(tool.fingerprint) == 64

    def test_has_an_example_that_works_as_shown(self, tool: Tool) -> None:
        assert tool.examples
        if tool.hints.open_world:
            pytest.skip("its upstream is not here")
        if tool.name == READER:
            pytest.skip("what it reads was answered before: tests/engine/test_fitting.py")
        for example in tool.examples:
            answer = testing.call(tool, **example.parameters)
            if example.expected_result is not None:
                assert answer == example.expected_result


def offered() -> list[Offer]:
    return [offer for offer, _ in SHIPPED.offers]


def test_ships_exactly_these_prompts_and_resources() -> None:
    assert {(offer.kind, offer.key, pack) for offer, pack in SHIPPED.offers} == {
        ("prompt", "diagnose_failures", "builtin"),
        ("prompt", "research_question", "websearch"),
    }


@pytest.mark.parametrize("offer", offered(), ids=lambda offer: offer.name)
class TestEveryOffer:
    def test_reads_well_to_an_agent(self, offer: Offer) -> None:
        assert offer.title
        assert testing.findings(offer) == []
