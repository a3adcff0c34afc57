"""ToolHub: the Django admin for the tools that AI agents use. What tool authors need is importable from here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tools_app.accounts import ConnectionKind, ConnectionOption
    from tools_app.content import Audio, EmbeddedResource, Image, ResourceLink
    from tools_app.context import Caller, Context
    from tools_app.errors import (
        ApiError,
        AuthenticationError,
        AuthorizationError,
        ConfigurationError,
        InputRequiredError,
        InvalidArgumentsError,
        MCPServerError,
        NotFoundError,
        Problem,
        RateLimitError,
        ToolDisabledError,
        ToolError,
        ToolExecutionError,
        ToolNotFoundError,
        ToolTimeoutError,
        UpstreamInvalidResponseError,
        UpstreamTlsError,
        UpstreamUnavailableError,
        UpstreamValidationError,
        ValidationError,
    )
    from tools_app.errors import ToolError as MCPError
    from tools_app.errors import ToolTimeoutError as TimeoutError
    from tools_app.examples import Example
    from tools_app.http import ApiClient, Page, Refused, Response, WebClient
    from tools_app.offer import Completes
    from tools_app.pack import Pack, TextForm
    from tools_app.parameters import ToolParameter
    from tools_app.policies import Rate
    from tools_app.prompt import Included, Message, prompt
    from tools_app.questions import Elicit, Reply, Roots, Sample
    from tools_app.resource import resource
    from tools_app.signatures import Number, OrDigits, OrNumber, Says
    from tools_app.tool import Hints, Tool, tool

_HOMES = {
    "tools_app.context": ("Caller", "Context"),
    "tools_app.examples": ("Example",),
    "tools_app.pack": ("Pack", "TextForm"),
    "tools_app.parameters": ("ToolParameter",),
    "tools_app.tool": ("Hints", "Tool", "tool"),
    "tools_app.accounts": ("ConnectionKind", "ConnectionOption"),
    "tools_app.content": ("Audio", "EmbeddedResource", "Image", "ResourceLink"),
    "tools_app.offer": ("Completes",),
    "tools_app.http": ("ApiClient", "Page", "Refused", "Response", "WebClient"),
    "tools_app.policies": ("Rate",),
    "tools_app.prompt": ("Included", "Message", "prompt"),
    "tools_app.questions": ("Elicit", "Reply", "Roots", "Sample"),
    "tools_app.resource": ("resource",),
    "tools_app.signatures": ("Number", "OrDigits", "OrNumber", "Says"),
    "tools_app.errors": (
        "ApiError",
        "AuthenticationError",
        "AuthorizationError",
        "ConfigurationError",
        "InputRequiredError",
        "InvalidArgumentsError",
        "MCPServerError",
        "NotFoundError",
        "Problem",
        "RateLimitError",
        "ToolDisabledError",
        "ToolError",
        "ToolExecutionError",
        "ToolNotFoundError",
        "ToolTimeoutError",
        "UpstreamInvalidResponseError",
        "UpstreamTlsError",
        "UpstreamUnavailableError",
        "UpstreamValidationError",
        "ValidationError",
    ),
}
_HOME_OF = {name: (module, name) for module, names in _HOMES.items() for name in names} | {
    # Names of the documents. Inside the hub they mean something else: an error of the protocol, and one of Python's.
    "MCPError": ("tools_app.errors", "ToolError"),
    "TimeoutError": ("tools_app.errors", "ToolTimeoutError"),
}

__all__ = [
    "ApiClient",
    "ApiError",
    "Audio",
    "AuthenticationError",
    "AuthorizationError",
    "Caller",
    "Completes",
    "ConfigurationError",
    "ConnectionKind",
    "ConnectionOption",
    "Context",
    "Elicit",
    "EmbeddedResource",
    "Example",
    "Hints",
    "Image",
    "Included",
    "InputRequiredError",
    "InvalidArgumentsError",
    "MCPError",
    "MCPServerError",
    "Message",
    "NotFoundError",
    "Number",
    "OrDigits",
    "OrNumber",
    "Pack",
    "Page",
    "Problem",
    "Rate",
    "RateLimitError",
    "Refused",
    "Reply",
    "ResourceLink",
    "Response",
    "Roots",
    "Sample",
    "Says",
    "TextForm",
    "TimeoutError",
    "Tool",
    "ToolDisabledError",
    "ToolError",
    "ToolExecutionError",
    "ToolNotFoundError",
    "ToolParameter",
    "ToolTimeoutError",
    "UpstreamInvalidResponseError",
    "UpstreamTlsError",
    "UpstreamUnavailableError",
    "UpstreamValidationError",
    "ValidationError",
    "WebClient",
    "prompt",
    "resource",
    "tool",
]


def __getattr__(name: str) -> Any:
    # Imported at first use: settings and commands import this package too, and must not pay for what they don't use.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'toolhub' has no attribute {name!r}")
    module, attribute = _HOME_OF[name]
    return getattr(importlib.import_module(module), attribute)
