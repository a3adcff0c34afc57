"""What every kind of source can do: describe its tools, and run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tools_app.base.ports import UnavailableError
from tools_app.models import Source
from tools_app.models.sources import LoadProblem
from tools_app.sdk.outside import Origin
from tools_app.sdk.runner import Runner
from tools_app.sdk.spec import ToolSpec


@dataclass(frozen=True, slots=True)
class DescribedTool:
    """A tool, prompt or resource as its source describes it, and the pack under which it is listed."""

    spec: ToolSpec
    pack: str
    # Of sources outside: the definition as it came over the wire, the hash of what an approval covers, and the version
    # of the rules that made the spec.
    raw: str = ""
    pin_hash: str = ""
    normaliser: int = 0


@dataclass(frozen=True, slots=True)
class Server:
    """What a source outside says about itself."""

    name: str
    era: str
    instructions: str
    # Original names of the tools that two listings in a row described differently.
    unstable: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SourceContents:
    """Everything that a source provides now. A part that could not be loaded is a problem, not an absence."""

    tools: Sequence[DescribedTool]
    problems: Sequence[LoadProblem] = ()
    # Changes when describing again is worth it.
    etag: str = ""
    # Of sources outside.
    server: Server | None = None


class NotHereError(UnavailableError):
    """This process has not the source, or not its present version. Nothing is recorded of that."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.next_step = next_step


class Provider(Protocol):
    """One source in this process."""

    name: str
    kind: Source.Kind
    location: str
    # Of sources outside: what is described.
    origin: Origin | None
    # The recorded etag as this process saw it last.
    recorded_etag: str

    def etag(self) -> str:
        """What `describe` would return as etag, without the work. Empty: unknown."""
        ...

    def describe(self) -> SourceContents:
        """Describe everything. Blocks.

        Raises:
            UnavailableError
        """
        ...

    def is_outdated(self) -> bool:
        """Whether `describe` would return an earlier version, since the files changed after they were imported."""
        ...

    async def start(self) -> None:
        """Prepare for calls, on the event loop that runs them.

        Raises:
            UnavailableError
        """
        ...

    async def stop(self) -> None: ...

    def runner(self, spec: ToolSpec) -> Runner:
        """The code of a tool, imported or connected at first use. Blocks.

        Raises:
            ToolError: it is missing, or is another version than the spec.
        """
        ...
