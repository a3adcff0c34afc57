"""Answers as Markdown, escaped so that results cannot pass as our own text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tools_app.packs.websearch import failures
from tools_app.packs.websearch._work.engines import Instant, Results
from tools_app.packs.websearch._work.text import escaped

MOST_TOPICS: Final = 10
_NO_INSTANT: Final = "No instant answer available for this query."


def of_search(query: str, results: Results, limits: Sequence[str] = ()) -> str:
    """`limits`: what the caller has limited the search to."""
    if not results.hits:
        limited = f" The search was limited to: {', '.join(limits)}." if limits else ""
        return f"{failures.NOTHING_FOUND}{limited}"
    parts = [f'## Web Search Results for "{escaped(query)}"']
    for number, hit in enumerate(results.hits, 1):
        lines = [f"### {number}. {escaped(hit.title)}", f"**URL:** {hit.url}"]
        parts += ["\n".join([*lines, escaped(hit.snippet)] if hit.snippet else lines), "---"]
    return "\n\n".join([*parts, f"_Source: {results.engine} ({', '.join([f'{len(results.hits)} results', *limits])})_"])


def of_instant(query: str, instant: Instant) -> str:
    parts = [f'## Instant Answer for "{escaped(query)}"']
    if instant.words:
        parts.append(f"### {instant.kind}\n{escaped(instant.words, 4_000)}")
    about = [f"**Source:** {escaped(instant.source)}"] if instant.words and instant.source else []
    if instant.words and instant.url:
        about.append(f"**URL:** {instant.url}")
    if about:
        parts.append("\n".join(about))
    if topics := instant.topics[:MOST_TOPICS]:
        lines = [
            f"- **{escaped(topic.name)}**" + (f" - {escaped(topic.words)}" if topic.words else "") for topic in topics
        ]
        parts.append("\n".join(["### Related Topics", *lines]))
    if len(parts) == 1:
        parts.append(_NO_INSTANT)
    return "\n\n".join([*parts, f"_Source: {instant.engine}_"])
