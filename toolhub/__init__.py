"""ToolHub: the Django admin for the tools that AI agents use. Tool authors import from here."""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from tools_app.http import ApiClient, Page, Response, UpstreamRefusal, WebClient
    from tools_app.sdk.accounts import ConnectionKind, ConnectionOption
    from tools_app.sdk.content import Audio, EmbeddedResource, Image, ResourceLink
    from tools_app.sdk.context import Caller, Context
    from tools_app.sdk.decorator import tool
    from tools_app.sdk.errors import (
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
    from tools_app.sdk.errors import ToolError as MCPError
    from tools_app.sdk.errors import ToolTimeoutError as TimeoutError
    from tools_app.sdk.examples import Example
    from tools_app.sdk.hints import Hints
    from tools_app.sdk.offer import Completes
    from tools_app.sdk.pack import Pack, TextForm
    from tools_app.sdk.parameters import ToolParameter
    from tools_app.sdk.policies import Rate
    from tools_app.sdk.prompt import Included, Message, prompt
    from tools_app.sdk.questions import Elicit, Reply, Roots, Sample
    from tools_app.sdk.resource import resource
    from tools_app.sdk.signatures import Number, OrDigits, OrNumber, Says
    from tools_app.sdk.tool import Tool

_HOMES = {
    "tools_app.sdk.context": ("Caller", "Context"),
    "tools_app.sdk.examples": ("Example",),
    "tools_app.sdk.pack": ("Pack", "TextForm"),
    "tools_app.sdk.parameters": ("ToolParameter",),
    "tools_app.sdk.decorator": ("tool",),
    "tools_app.sdk.hints": ("Hints",),
    "tools_app.sdk.tool": ("Tool",),
    "tools_app.sdk.accounts": ("ConnectionKind", "ConnectionOption"),
    "tools_app.sdk.content": ("Audio", "EmbeddedResource", "Image", "ResourceLink"),
    "tools_app.sdk.offer": ("Completes",),
    "tools_app.http": ("ApiClient", "Page", "Response", "UpstreamRefusal", "WebClient"),
    "tools_app.sdk.policies": ("Rate",),
    "tools_app.sdk.prompt": ("Included", "Message", "prompt"),
    "tools_app.sdk.questions": ("Elicit", "Reply", "Roots", "Sample"),
    "tools_app.sdk.resource": ("resource",),
    "tools_app.sdk.signatures": ("Number", "OrDigits", "OrNumber", "Says"),
    "tools_app.sdk.errors": (
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
    # Public aliases. Inside the hub these names mean an error of the MCP SDK and one of Python's.
    "MCPError": ("tools_app.sdk.errors", "ToolError"),
    "TimeoutError": ("tools_app.sdk.errors", "ToolTimeoutError"),
}
# Old names, which work for one more release.
_RENAMED = {"Refused": "UpstreamRefusal"}

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
    "UpstreamRefusal",
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
    # Lazy imports: settings and commands import this package too, and should not load what they do not use.
    if name in _RENAMED:
        warnings.warn(f"toolhub.{name} is deprecated: use {_RENAMED[name]}", DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    if name not in _HOME_OF:
        raise AttributeError(f"module 'toolhub' has no attribute {name!r}")
    module, attribute = _HOME_OF[name]
    return getattr(importlib.import_module(module), attribute)
