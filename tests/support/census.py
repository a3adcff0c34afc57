"""Counts what becomes of the operations of OpenAPI documents: each is a tool that clients accept, or has a reason."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools_app.sdk.checker import Checker
from tools_app.sdk.operation import Operation
from tools_app.sdk.outside import Listing, Origin
from tools_app.sdk.schemas import parts_of
from tools_app.sources.foreign import definitions, described
from tools_app.sources.openapi import Document, DocumentError, read
from tools_app.text.budget import size_of

KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
NAME = re.compile(r"[a-z][a-z0-9_-]{0,49}")


@dataclass
class Census:
    """What became of the operations of documents, and what is wrong with any of it."""

    # Names of documents that must be refused.
    too_large: Collection[str] = ()
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
            if path.name not in self.too_large:
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
