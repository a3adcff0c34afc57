"""Whole jobs, as benchmarks/jobs.py replays them: a real client, a real hub, and n8n and Redmine with a memory."""

from __future__ import annotations

import runpy
from pathlib import Path

from tests.support.processes import CHECKOUT

# Calls and tokens of a job at most: a little more than docs/context.md says.
MOST = (
    *((5, 1_300), (4, 1_000), (3, 3_100), (2, 400), (2, 400), (2, 1_600)),
    *((1, 800), (2, 750), (3, 500), (1, 250), (3, 1_200)),
)


def test_every_job_is_done_and_takes_no_more_than_is_documented(tmp_path: Path) -> None:
    jobs = runpy.run_path(str(CHECKOUT / "benchmarks" / "jobs.py"))
    took = jobs["measured"](tmp_path / "home")
    table = list(jobs["lines"](took))
    documented = (CHECKOUT / "docs" / "context.md").read_text()
    for job, now, most, line in zip(jobs["JOBS"], took, MOST, table[2:], strict=True):
        assert now.calls <= most[0], line
        assert now.sent + now.received <= most[1], line
        # The figures themselves differ by ids and times.
        assert f"| {job.question} |" in documented, line
