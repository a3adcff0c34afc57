"""What a tool sees of an upstream's answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Reads = Literal["json", "text", "bytes"]

ACCEPT: Final[Mapping[Reads, str]] = {
    "json": "application/json",
    "text": "text/html, application/xml;q=0.9, text/*;q=0.9, */*;q=0.8",
    "bytes": "*/*",
}


@dataclass(frozen=True, slots=True)
class Response:
    """An upstream did what it was asked to.

    `data` is what it said: JSON as Python values, or text, or bytes; None where it said nothing, as many do after a
    change. With a `warning` the change was made, and what was said about it could not be read: `data` is None then, and
    the warning is a sentence for whoever called the tool.

    `masked`: the upstream repeated the key of this connection, and `data` holds a mask in its place. Sent back, the
    mask would replace the key.
    """

    status: int
    data: Any = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    warning: str = ""
    masked: bool = False


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """What a request to an upstream is for, in the words that its errors use."""

    upstream: str
    method: str
    operation: str
    resource: str = ""
    resource_id: str = ""
    writes: bool = False

    def context(self, **more: Any) -> dict[str, Any]:
        """The context of an `ApiError`."""
        about = {"resourceType": self.resource or None, "resourceId": self.resource_id or None}
        return {"operation": self.operation} | about | more


@dataclass(frozen=True, slots=True)
class Refused:
    """An upstream answered that it will not do what it was asked to.

    `said` are its own words, as far as they could be found: without secrets, on one line each, and not long. They come
    from outside and prove nothing.
    """

    asked: UpstreamRequest
    status: int
    said: tuple[str, ...] = ()
    body: Any = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    retry_after: float | None = None
    detail: str = field(default="", repr=False)
