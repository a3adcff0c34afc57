"""Upstream responses as tools see them."""

from __future__ import annotations

import warnings
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
    """A successful response.

    `data` is the body: JSON as Python values, or text, or bytes; None if it is empty, as after many changes. With a
    `warning` the change was made, but the response could not be read: `data` is None, and the warning is a sentence for
    the caller of the tool.

    `masked`: the upstream echoed the key of this connection, and `data` contains a mask instead. Written back, the mask
    would replace the key.
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
class UpstreamRefusal:
    """An error response.

    `reasons` are the upstream's error messages, if any were found: without secrets, one line each, truncated. They are
    external content and must not be trusted.
    """

    request: UpstreamRequest
    status: int
    reasons: tuple[str, ...] = ()
    body: Any = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    retry_after: float | None = None
    detail: str = field(default="", repr=False)

    # Old names, which work for one more release.
    asked = property(lambda self: self._renamed("request"))
    said = property(lambda self: self._renamed("reasons"))

    def _renamed(self, name: str) -> Any:
        warnings.warn(f"use UpstreamRefusal.{name}: its old name is deprecated", DeprecationWarning, stacklevel=3)
        return getattr(self, name)
