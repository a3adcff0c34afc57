"""The arguments of one call: completed, measured, written as JSON and redacted, once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from tools_app.journal.notes import payload
from tools_app.sdk import heavy
from tools_app.sdk.checker import SMALL, mistyped, not_json
from tools_app.sdk.errors import InvalidArgumentsError, Problem
from tools_app.sdk.heavy import Extent
from tools_app.sdk.spec import ToolSpec
from tools_app.text import json_text
from tools_app.text.budget import written

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Arguments:
    """Complete arguments, not nested too deep. Whether they match the schema is not checked yet."""

    values: dict[str, Any]
    extent: Extent
    # Bytes of their JSON text; 0 if they are not JSON.
    size: int
    # What the journal stores of them.
    payload: str
    caller_id: str

    @classmethod
    async def received(cls, caller_id: str, spec: ToolSpec, arguments: object) -> Arguments:
        """What a caller sent, with defaults filled in and lenient types converted.

        Raises:
            InvalidArgumentsError: they are not an object, or nested too deep.
        """
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, Mapping):
            raise InvalidArgumentsError(problems=[mistyped([], "object")])
        values = dict(arguments)
        extent = heavy.measured(values, SMALL)
        return await _off_loop(caller_id, extent, cls._completed, caller_id, spec, values, extent)

    @classmethod
    def _completed(cls, caller_id: str, spec: ToolSpec, values: dict[str, Any], extent: Extent) -> Arguments:
        values = spec.checker.with_defaults(values)
        try:
            text = written(values)
            body = text.encode()
        except (ValueError, TypeError, RecursionError):
            text, body = "", b""
        # Of large arguments, only the upper levels were measured.
        is_measured = extent.parts <= SMALL
        depth = extent.depth if is_measured or not body else json_text.depth(body)
        if depth > json_text.MAX_DEPTH:
            message = f"Invalid arguments: nested deeper than {json_text.MAX_DEPTH} levels"
            raise InvalidArgumentsError(problems=[Problem("", message)])
        if not (body or is_measured):  # they may contain themselves
            raise InvalidArgumentsError(problems=[not_json(values)])
        return cls(values, extent, len(body), payload(values, text), caller_id)

    async def check(self, spec: ToolSpec) -> None:
        """Raises: InvalidArgumentsError, with all problems."""
        parts = self.extent.parts if self.size else None
        if problems := await self.processed(spec.checker.problems, self.values, parts):
            raise InvalidArgumentsError(problems=problems)

    async def processed(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of work that reads them all: if they are large, in a thread, off the event loop."""
        return await _off_loop(self.caller_id, self.extent, work, *args, **kwargs)


async def _off_loop(caller_id: str, extent: Extent, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    if extent.is_large(SMALL):
        return await heavy.in_turn(caller_id, work, *args, **kwargs)
    return work(*args, **kwargs)
