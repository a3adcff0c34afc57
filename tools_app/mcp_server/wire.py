"""The process's own stdin and stdout, taken for the protocol before anybody else can reach them.

`claim` is the first thing that `toolhub runmcp` does, since whatever is imported after it may print. That is why
nothing but os and sys is imported here.
"""

from __future__ import annotations

import os
import sys

_claimed: tuple[int, int] | None = None


def claim() -> None:
    """Keep stdin and stdout for the protocol. From now on the others read nothing, and write to stderr."""
    global _claimed
    if _claimed is not None:
        return
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # Closed: the number would go to the next file that is opened. The lowest free one is taken here.
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is not None:
        sys.stdout.flush()
    private = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # stderr shows every line at once; the old stdout would keep a tool's prints back, to the end and beyond.
    sys.stdout = sys.stderr
    _claimed = private


def claimed() -> tuple[int, int]:
    """The descriptors to read requests from and to write answers to.

    Raises:
        RuntimeError: nobody claimed them.
    """
    if _claimed is None:
        raise RuntimeError("stdin and stdout are not claimed; call wire.claim() before everything else")
    return _claimed
