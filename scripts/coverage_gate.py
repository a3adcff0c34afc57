"""Refuses a test run that leaves the core, one of the packs, or what formats answers less than 90 % covered: each for
itself, and of each the lines and the branches for themselves.

`coverage report --fail-under` knows only the sum of all, behind which unvisited branches can hide.
"""

import json
import sys
import tempfile
from pathlib import Path

from coverage import Coverage

PARTS = {
    "the core": [
        "tools_app/catalog/building.py",
        "tools_app/catalog/catalog.py",
        "tools_app/catalog/entry.py",
        "tools_app/catalog/snapshot.py",
        "tools_app/engine/*",
        "tools_app/sdk/errors.py",
        "tools_app/sdk/spec.py",
        "tools_app/sdk/tool.py",
        "tools_app/sources/*",
    ],
    "the n8n pack": ["tools_app/packs/n8n/*"],
    "the Redmine pack": ["tools_app/packs/redmine/*"],
    "the web pack": ["tools_app/packs/websearch/*"],
    "the hub's own packs": ["tools_app/packs/builtin/*", "tools_app/packs/finding/*"],
    # Of large packs, untested formatters could hide behind the rest.
    "what formats answers": [
        "tools_app/packs/n8n/differences.py",
        "tools_app/packs/n8n/explanation.py",
        "tools_app/packs/n8n/graph.py",
        "tools_app/packs/n8n/node_data.py",
        "tools_app/packs/n8n/node_types.py",
        "tools_app/packs/n8n/secrecy.py",
        "tools_app/packs/n8n/sizes.py",
        "tools_app/packs/n8n/summary.py",
        "tools_app/packs/redmine/shapes.py",
        "tools_app/packs/redmine/sums.py",
        "tools_app/packs/redmine/xml.py",
        "tools_app/packs/websearch/_work/answers.py",
        "tools_app/packs/websearch/_work/feeds.py",
        "tools_app/packs/websearch/_work/markdown.py",
        "tools_app/packs/websearch/_work/text.py",
    ],
}
LEAST = 90.0


def main() -> int:
    coverage = Coverage()
    coverage.load()
    lacking = [name for name, files in PARTS.items() if not _is_covered(coverage, name, files)]
    return 1 if lacking else 0


def _is_covered(coverage: Coverage, name: str, files: list[str]) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "part.json")
        coverage.json_report(include=files, outfile=str(report))
        totals = json.loads(report.read_text())["totals"]
    lines = 100 * totals["covered_lines"] / (totals["num_statements"] or 1)
    branches = 100 * totals["covered_branches"] / (totals["num_branches"] or 1)
    print(f"coverage of {name}: lines {lines:.1f} %, branches {branches:.1f} % (at least {LEAST:.0f} %)")
    if min(lines, branches) >= LEAST:
        return True
    coverage.report(include=files)
    return False


if __name__ == "__main__":
    sys.exit(main())
