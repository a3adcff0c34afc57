"""Reads a document in a process of its own: it has limits of memory and time, and imports neither Django nor models.

python -I -c "…; process.main()" DIRECTORIES < a line of JSON and the document > lines of JSON
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tools_app.sdk import child_environment
from tools_app.sources.openapi.document import DocumentError
from tools_app.text.budget import written

# Of the processor. On a busy machine, that many take longer.
SECONDS: Final = 30
PATIENCE: Final = 120
MEMORY: Final = 1024**3
_PROGRAM: Final = (
    "import json, sys; sys.path[:0] = json.loads(sys.argv[1]); "
    "from tools_app.sources.openapi import process; process.main()"
)
_SIMPLER: Final = "Reduce the document to the operations that you need, or split it."


def records(text: bytes, media_type: str, selected: Collection[str] | None, answers: bool) -> Iterator[dict[str, Any]]:
    """The records that `reading.records` makes of a document.

    Raises:
        DocumentError: nothing of it can be read, or not within the limits.
    """
    keys = None if selected is None else list(selected)
    order = written({"media_type": media_type, "selected": keys, "answers": answers}).encode()
    # Where this code is, and the one dependency that it needs.
    places = [str(Path(__file__).parents[3]), str(Path(yaml.__file__).parents[1])]
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-I", "-c", _PROGRAM, json.dumps(places)],
            input=order + b"\n" + text,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=child_environment.inherited(os.environ),
            cwd="/",
            close_fds=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DocumentError(f"Reading the document took more than {PATIENCE} s", _SIMPLER) from None
    if done.returncode == -signal.SIGXCPU:
        raise DocumentError(f"Reading the document took more than {SECONDS} s of the processor", _SIMPLER)
    is_complete = False
    # One line at a time: parsing all of them at once would block other threads.
    for line in io.BytesIO(done.stdout):
        record: dict[str, Any] = json.loads(line)
        if (error := record.get("error")) is not None:
            raise DocumentError(error["message"], error["next_step"])
        is_complete = "end" in record
        if not is_complete:
            yield record
    if not is_complete:
        raise DocumentError("Reading the document took too much memory or time", _SIMPLER)


def main() -> None:
    """The other process."""
    _limit()
    # There are no cycles to collect, and scanning the document again and again takes a third of the time.
    gc.disable()
    from tools_app.sources.openapi import reading  # It imports this module.

    order = json.loads(sys.stdin.buffer.readline())
    out = sys.stdout.buffer
    try:
        for record in reading.records(sys.stdin.buffer.read(), **order):
            out.write(written(record).encode() + b"\n")
        out.write(b'{"end":true}\n')
    except DocumentError as error:
        out.write(written({"error": {"message": error.message, "next_step": error.next_step}}).encode() + b"\n")
    except MemoryError:
        out.write(written({"error": {"message": "The document needs too much memory", "next_step": _SIMPLER}}).encode())
    out.flush()


def _limit() -> None:
    # Not on every system; the time limit holds everywhere.
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # If the hub ends meanwhile, this process does too.
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
