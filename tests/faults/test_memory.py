"""A hub that is given more at once than fits into its memory."""

from __future__ import annotations

import resource
from collections import Counter
from pathlib import Path

import pytest

from tests.support.hubs import TrialHub
from tests.support.processes import Server
from tests.support.tools import eventually

MIB = 1024 * 1024


def size_of(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmSize:")))


@pytest.mark.faults
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says how large a process is")
@pytest.mark.parametrize("room", [256, 1536])
def test_a_hundred_large_bodies_at_once_do_not_end_it(trial: TrialHub, room: int) -> None:
    # Large bodies count as many requests: the limit of a key would refuse most of them first.
    trial.home.extra |= {"TOOLHUB_KEY_RATE_CALLS": "0", "TOOLHUB_RATE_CALLS": "0"}
    with trial.serving() as server:
        assert trial.call(server, "write").code == ""
        limit = size_of(server) + room * MIB
        resource.prlimit(server.process.pid, resource.RLIMIT_AS, (limit, limit))
        answers = trial.call_together(server, ["weigh"] * 100, text="x" * (MIB - 200))
        told = Counter(answer.code for answer in answers)
        assert server.process.poll() is None, "".join(server.errors)[-2000:]
        # 429: one caller may fill a part of the room for bodies only.
        assert all(answer.http in {0, 200, 429, 503} for answer in answers), told
        assert eventually(lambda: trial.call(server, "write").code == "", 5)
