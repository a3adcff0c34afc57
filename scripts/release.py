"""Builds a release into dist/: wheel, source archive, SBOM (CycloneDX) and checksums. Called by `make dist`.

The SBOM lists what requirements.lock installs, with hashes and what requires what. That file has all of it, so that no
program is needed for it. Files have the time of the commit: the same commit gives the same wheel.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)(?:\s*;\s*([^\\]+))?")
SPECIFICATION = "1.6"
CHECKSUMS = "SHA256SUMS"


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"
    folder.mkdir(exist_ok=True)
    moment = commit_time()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(int(moment.timestamp()))}
    for old in [*folder.glob("*.whl"), *folder.glob("*.tar.gz"), *folder.glob("*.cdx.json"), folder / CHECKSUMS]:
        old.unlink(missing_ok=True)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sbom = bill_of_materials((ROOT / "requirements.lock").read_text(), project["name"], project["version"], moment)
    name = f"{project['name']}-{project['version']}.cdx.json"
    (folder / name).write_text(json.dumps(sbom, indent=2) + "\n")
    built = sorted(path for path in folder.iterdir() if path.suffix in {".whl", ".gz"} or path.name == name)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in built]
    (folder / CHECKSUMS).write_text("".join(lines))
    for path in [*built, folder / CHECKSUMS]:
        print(f"{path.stat().st_size:>12,}  {path}")


def commit_time() -> datetime:
    """Of a source archive, which has no commits, the present time."""
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return datetime.fromtimestamp(int(done.stdout), UTC) if done.returncode == 0 else datetime.now(UTC)


def bill_of_materials(lock: str, name: str, version: str, moment: datetime) -> dict[str, Any]:
    """The components of a lock file, and what requires what."""
    components: dict[str, dict[str, Any]] = {}
    required_by: dict[str, list[str]] = {}
    current = ""
    is_listing_requirers = False
    for line in lock.splitlines():
        if match := REQUIREMENT.match(line):
            current, marker, is_listing_requirers = match[1], (match[3] or "").strip(), False
            components[current] = component(current, match[2], marker)
            required_by[current] = []
        elif match := re.match(r"\s+--hash=sha256:([0-9a-f]{64})", line):
            # Several files can be installed, one for each platform: each has a reference of its own.
            distribution = {"type": "distribution", "url": components[current]["purl"]}
            hashes = {"hashes": [{"alg": "SHA-256", "content": match[1]}]}
            components[current]["externalReferences"].append({**distribution, **hashes})
        elif match := re.match(r"\s+# via ?(.*)", line):
            is_listing_requirers = True
            required_by[current] += [match[1].split()[0]] if match[1] else []
        elif is_listing_requirers and (match := re.match(r"\s+#\s+(\S+)", line)):
            required_by[current].append(match[1])
    own = {"type": "application", "bom-ref": name, "name": name, "version": version}
    requires: dict[str, list[str]] = {name: [], **{one: [] for one in components}}
    for dependency, requirers in required_by.items():
        for requirer in requirers:
            requires.setdefault(requirer, []).append(components[dependency]["bom-ref"])
    references = {name: name, **{one: parts["bom-ref"] for one, parts in components.items()}}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'{name} {version} {lock}')}",
        "version": 1,
        "metadata": {"timestamp": moment.isoformat(), "component": own},
        "components": list(components.values()),
        "dependencies": [{"ref": references[one], "dependsOn": sorted(parts)} for one, parts in requires.items()],
    }


def component(name: str, version: str, marker: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "externalReferences": [],
    }
    if marker:
        made["properties"] = [{"name": "python:marker", "value": marker}]
    return made


if __name__ == "__main__":
    main()
