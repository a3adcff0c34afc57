"""What every tool that ships must keep, whichever pack it is in. A new tool is checked without another line."""

from __future__ import annotations

import functools
import json

import pytest
from django.test import override_settings

import toolhub.settings
from toolhub import testing
from tools_app.sdk.names import NAME
from tools_app.sdk.published import faults
from tools_app.sdk.tool import Tool
from tools_app.sources.registry import Loaded, Registry
from tools_app.sources.sources import Sources


@functools.cache
def registries() -> list[Registry]:
    """All that ships: the tests' own settings leave some packs out."""
    with override_settings(TOOLHUB_PACKS=toolhub.settings.TOOLHUB_PACKS):
        return [provider.loaded() for provider in Sources().providers.values()]


def shipped() -> list[Tool]:
    return [loaded.declared for registry in registries() for loaded in registry if isinstance(loaded.declared, Tool)]


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
        problems = tool.spec.checker.problems({"no_such_parameter": 1})
        assert "Unknown parameter: no_such_parameter" in {problem.message for problem in problems}

    def test_keeps_its_identity_from_one_process_to_the_next(self, tool: Tool) -> None:
        again = json.loads(json.dumps(tool.definition(), sort_keys=True))
        assert json.dumps(again, sort_keys=True) == json.dumps(tool.definition(), sort_keys=True)
        assert len(tool.spec.hash) == 64

    def test_examples_that_are_run_say_what_comes_back_and_change_nothing_elsewhere(self, tool: Tool) -> None:
        run = [example for example in tool.examples if not example.shown_only]
        assert [example.description for example in run if example.expected_result is None] == []
        if tool.hints.open_world and tool.pack is not None and tool.pack.name != "finding":
            assert not (run and tool.hints.writes), "`checktools --write` would do it to somebody's account"

    def test_has_an_example_that_works_as_shown(self, tool: Tool) -> None:
        assert tool.examples
        if tool.hints.open_world:
            pytest.skip("its upstream is not here")
        if tool.pack is not None and tool.pack.name == "finding":
            pytest.skip("what it finds are the tools of a hub: tests/test_finding.py")
        testing.assert_contract(tool)


def offered() -> list[Loaded]:
    return [loaded for registry in registries() for loaded in registry.offers]


def test_ships_exactly_these_prompts_and_resources() -> None:
    assert {(loaded.spec.kind, loaded.spec.key, loaded.pack) for loaded in offered()} == {
        ("prompt", "diagnose_failures", "builtin"),
        ("prompt", "fix_workflow", "n8n"),
        ("prompt", "plan_my_day", "redmine"),
        ("prompt", "research_question", "websearch"),
        *(("prompt", pack, pack) for pack in ("n8n", "redmine", "websearch")),
        *(("resource", f"skill://{pack}/SKILL.md", pack) for pack in ("n8n", "redmine", "websearch")),
    }


@pytest.mark.parametrize("offer", offered(), ids=lambda offer: offer.spec.name)
class TestEveryOffer:
    def test_reads_well_to_an_agent(self, offer: Loaded) -> None:
        assert offer.spec.title
        assert testing.findings(offer.declared) == []
