"""A source of Python tools whose contents a test decides."""

from __future__ import annotations

from collections.abc import Sequence

from tools_app.base.ports import UnavailableError
from tools_app.models import Source
from tools_app.models.sources import LoadProblem
from tools_app.sdk.offer import Offer
from tools_app.sdk.tool import Tool
from tools_app.sources.provider import SourceContents
from tools_app.sources.python import PythonProvider
from tools_app.sources.registry import Registry


class DeclaredSource(PythonProvider):
    """By default, it takes the place of the tools directory."""

    def __init__(
        self,
        *declared: Tool | Offer,
        name: str = "folder",
        kind: Source.Kind = Source.Kind.FOLDER,
        location: str = "",
        problems: Sequence[LoadProblem] = (),
        is_down: bool = False,
    ) -> None:
        super().__init__(name, kind, location)
        self._declared, self._problems, self._is_down = declared, problems, is_down

    def fill(self, registry: Registry) -> None:
        for declaration in self._declared:
            if isinstance(declaration, Tool):
                registry.add(declaration)
            else:
                registry.offer(declaration)
        for problem in self._problems:
            registry.report(problem)

    def describe(self) -> SourceContents:
        if self._is_down:
            raise UnavailableError("connection refused")
        return super().describe()
