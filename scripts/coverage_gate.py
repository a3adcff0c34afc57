"""Refuses a test run that leaves the core less than 90 % covered: lines, and branches, each for itself.

`coverage report --fail-under` knows only the sum of both, behind which unvisited branches can hide.
"""

import json
import sys
import tempfile
from pathlib import Path

from coverage import Coverage

CORE = [
    "tools_app/catalog.py",
    "tools_app/entry.py",
    "tools_app/snapshot.py",
    "tools_app/engine/*",
    "tools_app/errors.py",
    "tools_app/registry.py",
    "tools_app/tool.py",
]
LEAST = 90.0


def main() -> int:
    coverage = Coverage()
    coverage.load()
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "core.json")
        coverage.json_report(include=CORE, outfile=str(report))
        totals = json.loads(report.read_text())["totals"]
    lines = 100 * totals["covered_lines"] / (totals["num_statements"] or 1)
    branches = 100 * totals["covered_branches"] / (totals["num_branches"] or 1)
    print(f"coverage of the core: lines {lines:.1f} %, branches {branches:.1f} % (at least {LEAST:.0f} %)")
    if min(lines, branches) >= LEAST:
        return 0
    coverage.report(include=CORE)
    return 1


if __name__ == "__main__":
    sys.exit(main())
