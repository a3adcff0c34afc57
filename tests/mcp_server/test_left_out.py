"""Agents are told how many characters were left out of an answer: past the SDK's dispatcher, and through it."""

from __future__ import annotations

import pytest

from tests.mcp_server.test_exchange import META, Site, Watch, called, site, watch
from tests.support.agents import LEGACY, MODERN
from tests.support.tools import Hub, Programmable
from tools_app.base import database

__all__ = ["site", "watch"]
pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("taken", [True, False], ids=["exchange", "SDK"])
@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_agents_get_the_number_of_removed_characters(site: Site, watch: Watch, era: str, taken: bool) -> None:
    tool = Programmable()
    await database.run(lambda: Hub().add(tool.tool))
    if era == LEGACY:
        await site.open()
    watch.open = taken
    tool.outcomes += [{"text": "a\u200bb\u2060"}, {"text": "ab"}]
    answers = []
    for value in (1, 2):
        _, _, told = await site.ask(called("programmable", {"value": value}, META if era == MODERN else {}), era)
        answers.append(told["result"])
    hidden, clean = answers
    assert hidden["_meta"]["toolhub/invisibleCharactersLeftOut"] == 2
    assert [piece["text"] for piece in hidden["content"]] == [
        '{"text":"ab"}',
        "Invisible characters removed from this answer: 2. If you write this text back, they are lost.",
    ]
    assert "toolhub/invisibleCharactersLeftOut" not in clean["_meta"]
    assert len(clean["content"]) == 1
