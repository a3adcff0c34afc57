"""Nothing runs twice, wherever the connection is cut: in the request, in the answer, at the beginning of either.

TOOLHUB_TEST_CUTS is how many cuts there are in all; each has a seed, so that a failure comes again.
"""

from __future__ import annotations

import os
import random

import pytest

from tests.support.mcp_upstream import McpUpstream
from tests.upstream.conftest import Calls, text_of
from tools_app.sdk.errors import ToolError
from tools_app.sdk.runner import Returned
from tools_app.upstream.results import UnansweredError

pytestmark = pytest.mark.anyio

# For each of the eight tests.
SEEDS = -(-int(os.environ.get("TOOLHUB_TEST_CUTS", "1000")) // 8)
# More than a request with its headers, and more than an answer.
MOST = 1_400


@pytest.mark.parametrize("eras", [("legacy",), ("modern",)])
@pytest.mark.parametrize("where", ["cut_request", "cut_answer"])
@pytest.mark.parametrize("events", [False, True])
async def test_a_call_runs_at_most_once_wherever_it_is_cut(
    server: McpUpstream, call: Calls, eras: tuple[str, ...], where: str, events: bool
) -> None:
    server.eras, server.events = set(eras), events
    await call("echo")
    chance = random.Random(f"{eras}{where}{events}")
    outcomes = set()
    for seed in range(SEEDS):
        arguments = {"text": f"{seed}:{'x' * chance.randrange(400)}"}
        server.calls.clear()
        server.heal()
        call.noted.clear()
        server.fail("tools/call", **{where: chance.choice([0, 1, chance.randrange(MOST), chance.randrange(MOST)])})
        outcome = await outcome_of(call, arguments)
        outcomes.add(type(outcome))
        assert server.calls in ([], [("echo", arguments)])
        if isinstance(outcome, Returned):
            assert arguments["text"] in text_of(outcome)
        else:
            check(outcome, server, call)
    assert outcomes >= {UnansweredError}


async def outcome_of(call: Calls, arguments: dict[str, str]) -> Returned | ToolError:
    try:
        return await call("echo", arguments)
    except ToolError as error:
        return error


def check(error: ToolError, server: McpUpstream, call: Calls) -> None:
    """What the hub says is never less than what has happened."""
    sent, _ = call.noted[-1]
    assert sent == "maybe" or not server.calls
    if error.nothing_done:
        assert not server.calls
        return
    error.leave_outcome_open()
    assert (error.code, error.retryable, error.outcome_unknown) == ("OUTCOME_UNKNOWN", False, True)
