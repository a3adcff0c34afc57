"""`python -m tests.support.faultd`: says where it listens, and misbehaves until its input ends."""

from __future__ import annotations

import sys

from tests.support.faultd import Faultd

with Faultd() as upstream:
    sys.stdout.write(f"{upstream.url}\n")
    sys.stdout.flush()
    sys.stdin.read()
