"""The text of PDF documents, page by page."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tools_app.packs.websearch._work import markdown, text
from tools_app.sdk import child_environment
from tools_app.sdk.errors import ApiError

MIME_TYPE: Final = "application/pdf"
SECONDS: Final = 15
MEMORY: Final = 512 * 1024**2
MOST_PAGES: Final = 200
# Processes at once, for the memory that they may take together.
AT_ONCE: Final = 2
_PROGRAM: Final = Path(__file__).with_name("pdf_process.py")
_MARGIN: Final = 0.5
_EMPTY: Final = "_The document has no text: its pages may be images._"
_ELSEWHERE: Final = "Look for a page about it, or for another copy."


class Reader:
    """Reads documents, a few at a time. For use on one event loop."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(AT_ONCE)

    async def read(self, data: bytes, operation: str, seconds: float) -> tuple[str, str]:
        """The title of a document and its text as Markdown, within `seconds`.

        Raises:
            ToolError: nothing of it can be read.
        """
        seconds_left = max(0.0, min(SECONDS, seconds - _MARGIN))
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds_left
        try:
            async with asyncio.timeout_at(end):
                await self._places.acquire()
        except TimeoutError:
            raise _refused(operation, "too many documents are being read") from None
        process = _Process()
        reading = asyncio.ensure_future(asyncio.to_thread(process.records, data, max(0.1, end - loop.time())))
        # The place is free when the process has ended, which is later than the end of a cancelled call.
        reading.add_done_callback(lambda _: self._places.release())
        try:
            records = await asyncio.shield(reading)
        except asyncio.CancelledError:
            process.kill()
            raise
        return await asyncio.to_thread(_written, records, operation)


class _Process:
    """The process that reads one document."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_killed = False

    def kill(self) -> None:
        """At once, or when it starts. For any thread."""
        with self._lock:
            self._is_killed = True
            if self._child is not None:
                self._child.kill()

    def records(self, data: bytes, seconds: float) -> list[dict[str, Any]]:
        """What the process has written until it ended, or was killed. Blocks."""
        with self._lock:
            if self._is_killed:
                return []
            self._child = _started()
        with self._child as child:
            try:
                output, _ = child.communicate(data, timeout=seconds)
            except subprocess.TimeoutExpired:
                child.kill()
                # Includes what was read before.
                output, _ = child.communicate()
        # The last line may be incomplete.
        return [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")]


def _started() -> subprocess.Popen[bytes]:
    spec = importlib.util.find_spec("pypdf")
    assert spec is not None  # noqa: S101 - it is a dependency
    assert spec.origin is not None  # noqa: S101
    limits = {"pages": MOST_PAGES, "characters": markdown.MOST_SOURCE, "memory": MEMORY, "seconds": SECONDS}
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", str(_PROGRAM), str(Path(spec.origin).parents[1]), json.dumps(limits)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=child_environment.inherited(os.environ),
        cwd="/",
        close_fds=True,
    )


def _written(records: Sequence[Mapping[str, Any]], operation: str) -> tuple[str, str]:
    head, *pages = records or [{}]
    if head.get("problem") == "password":
        raise _refused(operation, "the PDF document requires a password")
    if head.get("problem"):
        raise _refused(operation, "it is not a PDF document that can be read")
    if not pages:
        raise _refused(operation, f"reading the PDF document takes too much memory, or more than {SECONDS} s")
    is_complete = bool(pages[-1].get("end"))
    texts = [page for page in pages if not page.get("end")]
    parts = [f"## Page {page['number']}\n\n{_of_page(page)}" for page in texts if _of_page(page)]
    if not is_complete:
        parts.append(f"_Reading on takes too much memory or time. These are {len(texts)} of {head['pages']} pages._")
    if texts and texts[-1].get("cut"):
        parts.append(markdown.CUT)
    if is_complete and len(texts) < head["pages"]:
        parts.append(f"_These are {len(texts)} of {head['pages']} pages._")
    return text.plain(str(head.get("title", "")), 300), "\n\n".join(parts) or _EMPTY


def _of_page(page: Mapping[str, Any]) -> str:
    return "_This page cannot be read._" if page.get("problem") else str(page["text"]).strip()


def _refused(operation: str, reason: str) -> ApiError:
    return ApiError(f"Failed to {operation}: {reason}", context={"operation": operation}, next_step=_ELSEWHERE)
