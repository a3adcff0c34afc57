"""Settings: the only module in which ToolHub reads them.

`toolhub/settings.py` reads the environment and validates every value. Installed in another Django project,
`tools_app` takes the same names from that project's settings, or these defaults.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from tools_app.sdk import variables
from tools_app.sdk.variables import UnreadableError

DEFAULTS: Final[dict[str, Any]] = {
    "TOOLHUB_NAME": "toolhub",
    "TOOLHUB_VERSION": "0",
    "TOOLHUB_HOME": None,
    "TOOLHUB_GIVEN": None,
    "TOOLHUB_PACKS": (
        "tools_app.packs.builtin",
        "tools_app.packs.finding",
        "tools_app.packs.n8n",
        "tools_app.packs.redmine",
        "tools_app.packs.websearch",
    ),
    "TOOLHUB_TOOLS_DIR": None,
    "TOOLHUB_FILE_ROOT": None,
    "TOOLHUB_TIMEOUT_MS": 30_000,
    "TOOLHUB_RETRIES": 0,
    "TOOLHUB_RETRY_DELAY_MS": 1_000,
    "TOOLHUB_RATE_CALLS": 1_000,
    "TOOLHUB_RATE_SECONDS": 60,
    "TOOLHUB_TRUSTED_PROXIES": (),
    "TOOLHUB_LINK_LOCAL_HOSTS": (),
    "TOOLHUB_OAUTH_ISSUER": "",
    "TOOLHUB_OAUTH_AUDIENCE": (),
    "TOOLHUB_OAUTH_JWKS_URL": "",
    "TOOLHUB_OAUTH_SCOPES_CLAIM": "scope",
    "TOOLHUB_OAUTH_SCOPES": (),
    "TOOLHUB_OAUTH_TOOLSETS": (),
    "TOOLHUB_OAUTH_ACCESS": "destructive",
    "TOOLHUB_OAUTH_ASKS": "none",
    "TOOLHUB_OAUTH_BY_SCOPE": False,
    "TOOLHUB_KEY_RATE_CALLS": 1_000,
    "TOOLHUB_KEY_RATE_SECONDS": 60,
    "TOOLHUB_ANONYMOUS_RATE_CALLS": 60,
    "TOOLHUB_UPSTREAM_RUNNING": 10,
    "TOOLHUB_UPSTREAM_WAITING": 50,
    "TOOLHUB_THREADS": 16,
    "TOOLHUB_WATCH_SECONDS": 0.2,
    "TOOLHUB_ERROR_DETAIL": "none",
    "TOOLHUB_MAX_ANSWER_BYTES": 8 * 1024 * 1024,
    "TOOLHUB_ANSWER_TOKENS": 25_000,
    "TOOLHUB_ANSWER_SECONDS": 3_600,
    "TOOLHUB_ANSWERS_BYTES": 256 * 1024 * 1024,
    "TOOLHUB_ANSWERS_CALLER_BYTES": 64 * 1024 * 1024,
    "TOOLHUB_REPLIES_BYTES": 256 * 1024 * 1024,
    "TOOLHUB_REPLIES_CALLER_BYTES": 64 * 1024 * 1024,
    "TOOLHUB_CACHE_BYTES": 64 * 1024 * 1024,
    "TOOLHUB_LIST_MODE": "direct",
    "TOOLHUB_LIST_TOKENS": 6_500,
    "TOOLHUB_MCP_SESSIONS": 1_000,
    "TOOLHUB_MCP_IDLE_SECONDS": 600,
    "TOOLHUB_ASK_SECONDS": 300,
    "TOOLHUB_APPROVAL_SECONDS": 900,
    "TOOLHUB_SOURCES_TO_APPROVE": (),
    "TOOLHUB_PAYLOADS": "redacted",
    "TOOLHUB_KEEP_PAYLOADS_DAYS": 14,
    "TOOLHUB_KEEP_CALLS_DAYS": 90,
    "TOOLHUB_KEEP_CALLS": 1_000_000,
    "TOOLHUB_KEEP_AUDIT_DAYS": 400,
    "TOOLHUB_KEEP_FIGURES_DAYS": 730,
    "WEBSEARCH_ENGINES": ("duckduckgo",),
    "WEBSEARCH_SEARXNG_URL": "",
    "WEBSEARCH_MAX_RESULTS": 10,
    "WEBSEARCH_TIMEOUT_SECS": 10,
    "WEBSEARCH_USER_AGENT": "websearch-mcp/0.1",
    "WEBSEARCH_CACHE_TTL_SECS": 300,
    "WEBSEARCH_RATE_LIMIT_MS": 1_000,
    "WEBSEARCH_MAX_RETRIES": 2,
    "WEBSEARCH_REGION": "",
    "WEBSEARCH_SAFE_SEARCH": "moderate",
    "WEBSEARCH_TIME_RANGE": "",
}


def value(name: str) -> Any:
    return getattr(settings, name, DEFAULTS[name])


def home() -> Path | None:
    """The directory with this hub's state, if it has one."""
    directory = value("TOOLHUB_HOME")
    return Path(directory) if directory else None


def given(name: str) -> bool:
    """Whether an environment variable was set when this process started, and not by the settings file."""
    names = value("TOOLHUB_GIVEN")
    return name in os.environ and (names is None or name in names)


def own(name: str) -> str:
    """An environment variable of a pack, or the content of the file that `NAME_FILE` names; empty if neither is set.

    Raises:
        UnreadableError: both are set, or the file has no text or cannot be read.
    """
    return variables.text(os.environ, name)


def unset(names: Iterable[str]) -> list[str]:
    """Which of a pack's environment variables are missing, or are in a file that cannot be read."""
    return [name for name in names if not _is_set(name)]


def _is_set(name: str) -> bool:
    try:
        return own(name) != ""
    except UnreadableError:
        return False
