"""What tools cost an agent's context: listed or searched for, with answers as they are or with small ones.

    python benchmarks/modes.py

A scripted agent does twelve tasks on hubs of 10, 100 and 1,000 tools, through the engine. Counted are the bytes, by
three, of all that its model is sent: the list of tools with every turn, the question, and every call and answer of the
conversation so far, again with every turn, as clients do. That is a lower bound: what clients add (their own prompt,
the names of roles, the thinking of the model) is left out, and so is what caching of prompts saves. The script knows
which tool it wants, takes it as soon as it is among those it is shown, and does not search again in a conversation for
what it has found there; models hesitate, and go wrong. Where an answer is outlined, it reads on as far as the question
needs. After each size stands how long a list costs as much as searching, also for an agent that forgets, and searches
anew for every task of a conversation: that is where the threshold of `auto` comes from.

The tools are made up; benchmarks/federated.py does the same with those of real servers. `fields`: the agent says with
`_fields` which parts of an answer it needs.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
# The other benchmarks come last: one of them is called mcp, like the package.
sys.path[0] = str(CHECKOUT)
sys.path.append(str(CHECKOUT / "benchmarks"))

# The question, the tool that answers it, and what it is given.
TASKS: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    ("How is the weather in Kyoto?", "get_weather", {"city": "Kyoto"}),
    ("Translate this sentence into French", "translate_text", {"text": "Good morning", "language": "fr"}),
    ("Which orders are open?", "list_orders", {"status": "open"}),
    ("Show order 17", "get_order", {"id": 17}),
    ("Make a note that the printer is broken", "create_note", {"text": "The printer is broken"}),
    ("What did we note about the printer?", "search_notes", {"query": "printer"}),
    ("How much is 3 times 7?", "multiply_numbers", {"a": 3, "b": 7}),
    ("Which errors does the log of today have?", "read_log", {"day": "2026-01-31"}),
    ("How is the weather in Oslo?", "get_weather", {"city": "Oslo"}),
    ("Show order 18", "get_order", {"id": 18}),
    ("Translate this sentence into Japanese", "translate_text", {"text": "Good night", "language": "ja"}),
    ("Which errors did the log of yesterday have?", "read_log", {"day": "2026-01-30"}),
)
# What an agent that is given an outline of a log reads of it.
ERRORS: Mapping[str, Any] = {"where": [{"field": "level", "op": "eq", "value": "error"}]}
SIZES = (10, 100, 1_000)
# `searching` searches even if its list is so short that the mode `search` shows it.
MODES = ("direct", "direct, small", "search", "search, small", "searching", "direct, fields", "search, fields")
# What an agent that selects reads of these answers.
FIELDS: Mapping[str, Sequence[str]] = {
    "list_orders": ["/*/id", "/*/customer"],
    "get_order": ["/lines/*/article", "/lines/*/pieces"],
    "search_notes": ["/*/text"],
    "get_weather": ["/sky", "/degrees"],
}
BUDGET = 1_000


def own_tools() -> Iterator[Any]:
    """The tools of the tasks, with answers of the usual sizes: most are short, a log is long."""
    from tools_app.sdk.decorator import tool
    from tools_app.sdk.hints import Hints

    reads = {"category": "work", "hints": Hints(read_only=True, open_world=False)}

    @tool(tags=("weather",), **reads)
    def get_weather(city: str, days: int = 1) -> dict[str, Any]:
        """Tell the weather of a city today, or in the days to come."""
        return {"city": city, "degrees": 21.5, "sky": "clear", "wind": "3 m/s", "days": days}

    @tool(tags=("language",), **reads)
    def translate_text(text: str, language: str) -> dict[str, Any]:
        """Translate a text into another language."""
        return {"language": language, "text": text}

    @tool(tags=("orders",), **reads)
    def list_orders(status: str = "", customer: str = "", limit: int = 20) -> list[dict[str, Any]]:
        """List orders, the newest first."""
        return [{"id": n, "customer": f"Customer {n}", "total": n * 10, "status": status} for n in range(limit)]

    @tool(tags=("orders",), **reads)
    def get_order(id: int) -> dict[str, Any]:
        """Show an order with its lines."""
        return {"id": id, "lines": [{"article": f"Article {n}", "pieces": n, "price": n * 3} for n in range(10)]}

    @tool(tags=("notes",), category="work", hints=Hints(destructive=False, open_world=False))
    def create_note(text: str) -> dict[str, Any]:
        """Write a note down."""
        return {"id": 1, "text": text}

    @tool(tags=("notes",), **reads)
    def search_notes(query: str, limit: int = 10) -> list[dict[str, Any]]:
        """Search notes by words."""
        return [{"id": n, "text": f"{query}: note {n}"} for n in range(limit)]

    @tool(tags=("math",), **reads)
    def multiply_numbers(a: float, b: float) -> dict[str, Any]:
        """Multiply two numbers."""
        return {"product": a * b}

    @tool(tags=("log",), **reads)
    def read_log(day: str) -> list[dict[str, Any]]:
        """Read the rows of the log of a day."""
        levels = ("error", *["info"] * 39)
        return [
            {"at": f"{day}T00:00:{n % 60:02}Z", "level": levels[n % 40], "text": f"Request {n} served"}
            for n in range(400)
        ]

    yield from (get_weather, translate_text, list_orders, get_order)
    yield from (create_note, search_notes, multiply_numbers, read_log)


@dataclass
class Conversation:
    """What a model is sent, in bytes: the list with every turn, and all that was said so far."""

    listed: int
    said: int = 0
    turns: int = 0
    # What was said, as often as it was sent.
    repeated: int = 0
    calls: int = 0
    known: set[str] = field(default_factory=set)
    missed: list[str] = field(default_factory=list)

    @property
    def sent(self) -> int:
        return self.turns * self.listed + self.repeated

    def turn(self) -> None:
        self.turns += 1
        self.repeated += self.said

    def add(self, value: Any) -> None:
        from tools_app.text.budget import size_of

        self.said += size_of(value) if not isinstance(value, str) else len(value.encode())


class Agent:
    """`fields` are the parts of answers that it needs, `sources` those of tools of others: both by name of the tool."""

    def __init__(
        self,
        mode: str,
        *,
        forgets: bool = False,
        fields: Mapping[str, Sequence[str]] = FIELDS,
        sources: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        from tools_app.access import access
        from tools_app.sdk.reach import Reach

        self.searches = mode.startswith("search")
        self.selects = mode.endswith("fields")
        self.forced = mode == "searching"
        self.forgets = forgets
        self.fields, self.sources = fields, sources
        self.tokens = BUDGET if mode.endswith("small") else None
        self.caller = access.caller_of_process(Reach(mode="search" if self.searches else "direct", outside=True))

    async def works(self, tasks: Sequence[tuple[str, str, Mapping[str, Any]]]) -> Conversation:
        from tools_app.catalog import catalog, listed
        from tools_app.catalog.entry import READER

        seen = (await catalog.fresh()).seen_by(self.caller)
        entries = [entry for entry in seen.all if entry.is_finder or entry.name == READER]
        if not self.forced:
            entries = list(listed.listed(seen))
        searches = self.searches and any(entry.is_finder for entry in entries)
        wires = [listed.as_listed(entry) for entry in entries]
        talk = Conversation(len(json.dumps(wires, ensure_ascii=False, separators=(",", ":")).encode()))
        for question, name, needed in tasks:
            talk.add(question)
            selected = {"_fields": self.fields[name]} if self.selects and name in self.fields else {}
            arguments = {**needed, **selected}
            if searches:
                if (self.forgets or name not in talk.known) and not await self._find(talk, question, name):
                    talk.missed.append(question)
                    continue
                writes = seen.find(name).hints.writes  # type: ignore[union-attr]
                through = "call_writing_tool" if writes else "call_tool"
                answer = await self._call(talk, through, {"name": name, "arguments": dict(arguments)})
            else:
                answer = await self._call(talk, name, dict(arguments))
            if isinstance(answer, dict) and "outline" in answer:
                await self._call(talk, "read_result", {"id": answer["outline"]["id"], **ERRORS})
            talk.turn()  # in which the model answers the person
        return talk

    async def _find(self, talk: Conversation, question: str, name: str) -> bool:
        """It names the source, once that is among the likely ones, and else turns the page."""
        asked: dict[str, Any] = {"query": question}
        for _ in range(3):
            answer = await self._call(talk, "search_tools", asked)
            found = {tool["name"] for tool in answer["tools"]}
            talk.known |= found
            if name in found:
                return True
            source = self.sources.get(name)
            if source in {one["name"] for one in answer.get("sources", ())}:
                asked = {"query": question, "source": source}
            else:
                asked = asked | {"offset": asked.get("offset", 0) + 10}
        return False

    async def _call(self, talk: Conversation, name: str, arguments: dict[str, Any]) -> Any:
        from tools_app import engine

        talk.turn()
        talk.add({"name": name, "arguments": arguments})
        done = await engine.call(
            name, arguments, self.caller, door="mcp", options=engine.Options(answer_tokens=self.tokens)
        )
        talk.add(done.answer.text)
        talk.calls += 1
        return done.answer.value


async def _measured(size: int) -> None:
    from tools_app import engine
    from tools_app.catalog import catalog
    from tools_app.catalog import listed as lists
    from tools_app.text.budget import tokens_of

    engine.adopt_running_loop()
    whole = lists.cost_of_list(await catalog.fresh())
    measured: dict[str, tuple[list[Conversation], list[Conversation]]] = {}
    for mode in MODES:
        agent = Agent(mode)
        apart = [await agent.works([task]) for task in TASKS]
        together = [await agent.works(TASKS)]
        measured[mode] = apart, together
        first, each, all_ = (tokens_of(sent) for sent in (apart[0].listed, _sent(apart), _sent(together)))
        calls = f"{sum(one.calls for one in apart)}, {together[0].calls}"
        missed = f"{sum(len(one.missed) for one in apart)}, {len(together[0].missed)}"
        print(f"{size:>6}{whole:>9,}{mode:>15}{first:>9,}{each:>12,}{all_:>12,}{calls:>9}{missed:>8}")
    (apart, together), (found_apart, found_together) = measured["direct"], measured["searching"]
    forgetful = [await Agent("searching", forgets=True).works(TASKS)]
    even = _even(apart, found_apart), _even(together, found_together), _even(together, forgetful)
    print(f"{'':>6}the same with a list of {even[0]:,} apart, {even[1]:,} together, {even[2]:,} where it forgets")
    await engine.close(2)


def _even(listing: Sequence[Conversation], searching: Sequence[Conversation]) -> int:
    """With a list of so many tokens, listing costs what searching does."""
    from tools_app.text.budget import tokens_of

    said, turns = (sum(getattr(one, part) for one in listing) for part in ("repeated", "turns"))
    return tokens_of(round((_sent(searching) - said) / turns))


def _sent(talks: Sequence[Conversation]) -> int:
    return sum(one.sent for one in talks)


def main() -> None:
    os.environ.update(DJANGO_SETTINGS_MODULE="toolhub.settings", LOG_LEVEL="error")
    with tempfile.TemporaryDirectory() as home:
        os.environ["TOOLHUB_HOME"] = home
        import django

        django.setup()
        from django.conf import settings
        from search import others, shipped

        from tools_app import sources
        from tools_app.base import hub
        from tools_app.catalog.catalog import CatalogState
        from tools_app.setup import installation
        from tools_app.sources import sync
        from tools_app.sources.sources import Sources

        settings.TOOLHUB_PACKS = ()
        installation.require_ready(lambda line: None)
        finders = [one for one in shipped() if one.pack and one.pack.name in ("builtin", "finding")]
        print(f"{'tools':>6}{'whole':>9}{'mode':>15}{'list':>9}{'apart':>12}{'together':>12}{'calls':>9}{'missed':>8}")
        for size in SIZES:
            hub.current().drop(Sources)
            code = sources.current().code
            own = list(own_tools())
            for one in (*finders, *own, *others(size - len(own))):
                code.loaded().add(one)
            sync.sync_source(code, actor="benchmark")
            hub.current().drop(CatalogState)
            asyncio.run(_measured(size))
        print("tokens (bytes / 3); apart: each task in a conversation of its own, together: all in one; calls of both")


if __name__ == "__main__":
    main()
