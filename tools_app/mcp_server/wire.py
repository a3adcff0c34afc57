"""Reserving stdin and stdout for the protocol.

`claim` is the first thing that `toolhub runmcp` does, since any later import may print. Therefore only os and sys are
imported here.
"""

from __future__ import annotations

import os
import sys

_descriptors: tuple[int, int] | None = None


def claim() -> None:
    """Reserve stdin and stdout for the protocol. All other code then reads nothing from stdin and prints to stderr."""
    global _descriptors
    if _descriptors is not None:
        return
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Closed: the next opened file would get this number. Opening /dev/null takes it.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is not None:
        sys.stdout.flush()
    private = os.dup(0), os.dup(1)
    null_descriptor = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null_descriptor, 0)
    os.close(null_descriptor)
    os.dup2(2, 1)
    # stderr is line-buffered; the old stdout would hold back a tool's prints until its buffer is full.
    sys.stdout = sys.stderr
    _descriptors = private


def descriptors() -> tuple[int, int]:
    """The descriptors to read requests from and to write answers to.

    Raises:
        RuntimeError: `claim` was not called.
    """
    if _descriptors is None:
        raise RuntimeError("stdin and stdout are not claimed; call wire.claim() before everything else")
    return _descriptors
