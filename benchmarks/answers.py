"""What it takes to outline a large answer, to keep it, and to read a page of it.

    python benchmarks/answers.py [--megabytes 10] [--times 5]

The best of several runs counts: whatever else the machine does only adds. Nothing here touches a database; "kept" is
what it costs to compress and encrypt.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

WORDS = ["lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit", "sed", "do", "eiusmod"]
PAGE = 75_000
HANDLE = "0" * 32


def words(number: int, count: int) -> str:
    return " ".join(WORDS[(number * 7 + other * 3) % len(WORDS)] for other in range(count))


def record(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "subject": words(number, 5),
        "status": ("open", "closed", None)[number % 3],
        "tags": [words(number, 1), words(number + 1, 1)],
        "author": {"id": number % 50, "name": words(number, 2)},
        "hours": number / 7,
    }


def repeated(make: Callable[[int], Any], size: int) -> list[Any]:
    """As many as have so many bytes in JSON."""
    sample = len(json.dumps([make(number) for number in range(100)], ensure_ascii=False).encode())
    return [make(number) for number in range(100 * size // sample)]


def answers(size: int) -> dict[str, Any]:
    rows = repeated(record, size)
    element = "<issue><id>{}</id><subject>{}</subject><author id='{}'/></issue>"
    return {
        "records": {"total": len(rows), "items": rows},
        "an object of objects": {f"key {number}": row for number, row in enumerate(rows)},
        "numbers": repeated(lambda number: number * 7919 % 1_000_003, size),
        "Japanese": repeated(lambda number: {"本文": "これは日本語の文章です。" * (number % 30)}, size),
        "one long text": {"text": "x" * size},
        "a text of lines": "\n".join(repeated(lambda number: words(number, 12), size)),
        "a text that is JSON": json.dumps({"items": rows}),
        "a text that is XML": "<issues>"
        + "".join(repeated(lambda number: element.format(number, words(number, 5), number), size))
        + "</issues>",
    }


def best(times: int, do: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds, and what came of it."""
    made: Any = None
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        made = do()
        taken.append(time.perf_counter() - begun)
    return min(taken) * 1e3, made


def measure(size: int, times: int) -> None:
    from tools_app import answers as parts
    from tools_app.base import secrets
    from tools_app.text.budget import size_of, written

    now = datetime.now(UTC)
    print(f"{'ms':<24}{'MB':>6}{'outline':>9}{'tokens':>8}{'keep':>8}{'kept MB':>9}{'open':>8}{'page':>8}")
    for name, answer in answers(size).items():
        is_text = isinstance(answer, str)
        content = (answer if is_text else written(answer)).encode()

        def outlined(answer: Any = answer, content: bytes = content) -> dict[str, Any]:
            beginning = parts.beginning_of(answer)
            return parts.outline(beginning, len(content), 25_000, handle=HANDLE, expires_at=now)

        def hidden(content: bytes = content) -> bytes:
            return secrets.encrypted(zlib.compress(content, 1))

        def opened(content: bytes = content, is_text: bool = is_text) -> Any:
            return parts.opened(content, text=is_text)

        outlining, made = best(times, outlined)
        keeping, kept = best(times, hidden)
        opening, document = best(times, opened)
        pointer = made["_guidance"]["example"]["arguments"].get("pointer", "")
        asked = parts.PageRequest(pointer)
        paging, page = best(
            times, lambda asked=asked, document=document: parts.page(document, asked, handle=HANDLE, most_bytes=PAGE)
        )
        assert size_of(page) <= PAGE
        print(
            f"{name:<24}{len(content) / 1e6:>6.1f}{outlining:>9.1f}{parts.tokens_of(size_of(made)):>8}"
            f"{keeping:>8.0f}{len(kept) / 1e6:>9.1f}{opening:>8.0f}{paging:>8.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(DJANGO_SETTINGS_MODULE="toolhub.settings", TOOLHUB_HOME=home, TOOLHUB_ENV_FILE=os.devnull)
        measure(round(arguments.megabytes * 1e6), arguments.times)


if __name__ == "__main__":
    main()
