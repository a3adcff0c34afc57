"""The table of all settings: name, type with bounds, default, description, group.

`toolhub/settings.py`, `conf`, `.env.example`, docs/settings.md, `toolhub settings` and the admin take them from here.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import re
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from tools_app.sdk.variables import FLAG, LINE, PATH, InvalidError, Type, choice, line, names, seconds, whole_number

LOG_LEVELS: Final = ("fatal", "error", "warn", "info", "debug", "trace")
PACKS: Final = (
    "tools_app.packs.builtin",
    "tools_app.packs.finding",
    "tools_app.packs.n8n",
    "tools_app.packs.redmine",
    "tools_app.packs.websearch",
)
_MIB: Final = 1024 * 1024
_DAY: Final = 86_400


def _matches(pattern: str) -> Callable[[str], bool]:
    expression = re.compile(pattern)
    return lambda text: expression.fullmatch(text) is not None


is_origin: Final = _matches(
    r"https?://[a-z0-9.-]+(?::[0-9]{1,5})?|https?://\[[0-9a-f:.]+\](?::[0-9]{1,5})?|\*"
)  # as browsers send `Origin`; * means all


def is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True


def is_directory(path: Path) -> bool:
    return os.path.isdir(path) and os.access(path, os.R_OK | os.X_OK)  # noqa: PTH112 – never raises


def is_time_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return False
    return True


def _database(url: str) -> dict[str, Any]:
    # Only for the hub's own site: another project configures its database itself.
    import environ

    try:
        settings = dict(environ.Env.db_url_config(url))
    except Exception as error:
        raise ValueError from error
    if settings.get("ENGINE") not in ("django.db.backends.sqlite3", "django.db.backends.postgresql"):
        raise ValueError
    return settings


def _mail_server(url: str) -> dict[str, Any]:
    """Django's settings for e-mail."""
    scheme, parts = url.partition("://")[0], urlsplit(url)
    if scheme not in ("smtp", "smtp+tls", "smtp+ssl") or not parts.hostname or parts.path.strip("/"):
        raise ValueError
    query = parse_qs(parts.query, strict_parsing=True)
    sender = query.pop("from", [""])[0]
    if query or "@" not in sender or any(character in sender for character in "\r\n<>,"):
        raise ValueError
    return {
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": parts.port or {"smtp": 25, "smtp+tls": 587, "smtp+ssl": 465}[scheme],
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": scheme == "smtp+tls",
        "EMAIL_USE_SSL": scheme == "smtp+ssl",
        "DEFAULT_FROM_EMAIL": sender,
    }


def _redis(url: str) -> str:
    parts = urlsplit(url)
    if any(character.isspace() for character in url) or parts.scheme not in ("redis", "rediss", "unix"):
        raise ValueError
    if not (parts.path if parts.scheme == "unix" else parts.hostname) or (parts.port is not None and not parts.port):
        raise ValueError
    # Others, such as decode_responses, change what the hub gets.
    for name, values in parse_qs(parts.query, keep_blank_values=True).items():
        if name in ("db", "socket_timeout", "socket_connect_timeout"):
            float(values[-1])
        elif not name.startswith("ssl_"):
            raise ValueError
    if importlib.util.find_spec("redis") is None:
        raise InvalidError('needs the Python package redis, which comes with "toolhub[redis]"', None)
    return url


REDIS: Final = Type(
    "redis://USER:PASSWORD@HOST:PORT/NUMBER, rediss://… for TLS, or unix:///PATH", _redis, is_quoted=False
)
MAIL_SERVER: Final = Type(
    "smtp://USER:PASSWORD@HOST:PORT?from=ADDRESS, or smtp+tls:// or smtp+ssl://", _mail_server, is_quoted=False
)
DATABASE: Final = Type("sqlite:///PATH or postgres://USER:PASSWORD@HOST:PORT/NAME", _database, is_quoted=False)
# A URL with a secure connection: https, or this machine.
SECURE_ADDRESS: Final = line(
    _matches(
        r"(?:https://[A-Za-z0-9.-]+|http://(?:localhost|127\.[0-9.]+|\[::1\]))(?::[0-9]{1,5})?"
        r"(?:/[\w.~%!$&'()*+,;=:@/?-]*)?"
    ),
    "an address that begins with https://, without a name and password",
    is_quoted=False,
)
# The base URL of an upstream: no password, no query, no fragment.
UPSTREAM: Final = line(
    _matches(r"https?://[^\s/?#@\\]+(?:/[^\s?#@\\]*)?"),
    "an address like https://HOST/PATH, without a name and password",
    is_quoted=False,
)


def _lowered(type_: Type[Any]) -> Type[Any]:
    return Type(type_.expected, lambda text: type_(text.lower()))


@dataclass(frozen=True, slots=True)
class Setting:
    """`default_text` describes a default that depends on other things. `of_site`: another project has its own.

    `deprecated` says what replaces a setting that the next release does not read. Until then it has its effect, with a
    warning, and is not documented.
    """

    name: str
    type: Type[Any]
    default: Any
    help: str
    default_text: str = ""
    is_secret: bool = False
    of_site: bool = False
    deprecated: str = ""

    @property
    def shown_default(self) -> str:
        return self.default_text or shown(self.default)

    @property
    def help_text(self) -> str:
        return with_bounds(self.help, self.type.bounds)


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    settings: tuple[Setting, ...]


def with_bounds(help_text: str, bounds: str) -> str:
    """A description with the bounds of a number."""
    return f"{help_text} ({bounds})" if bounds else help_text


def shown(value: object) -> str:
    """A value as it is written in the environment."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


_LISTENING: Final = Group(
    "where it listens",
    (
        Setting(
            "HOST",
            LINE,
            "127.0.0.1",
            "address of `toolhub serve`; beyond this machine only with a strong SECRET_KEY",
            of_site=True,
        ),
        Setting("PORT", whole_number(1, 65535), 3000, "port of `toolhub serve`", of_site=True),
        Setting(
            "ALLOWED_HOSTS",
            names(),
            ("localhost", "127.0.0.1", "[::1]"),
            "host names of the hub, as browsers and clients use them",
            of_site=True,
        ),
        Setting(
            "CSRF_TRUSTED_ORIGINS",
            names(lambda origin: "://" in origin, "origins like https://hub.example.org"),
            (),
            "origins of the admin behind a proxy that speaks HTTPS, e.g. https://hub.example.org",
            default_text="the origin of TOOLHUB_PUBLIC_URL",
            of_site=True,
            deprecated="set TOOLHUB_PUBLIC_URL, whose origin is trusted",
        ),
        Setting(
            "TOOLHUB_HTTPS",
            FLAG,
            False,
            "true if clients use HTTPS: secure cookies, redirects, HSTS. List the proxy in TOOLHUB_TRUSTED_PROXIES, "
            "otherwise every request is redirected in a loop",
            of_site=True,
        ),
        Setting(
            "TOOLHUB_PUBLIC_URL",
            SECURE_ADDRESS,
            "",
            "the hub as other machines reach it, e.g. https://hub.example.org: forms of the admin are accepted from "
            "there, authorization servers send sign-ins back to it, and read there who the hub is",
            default_text="the address of the request",
        ),
        Setting(
            "TOOLHUB_TRUSTED_PROXIES",
            names(is_network, "addresses and networks like 10.0.0.0/8"),
            (),
            "proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted, e.g. 127.0.0.1,10.0.0.0/8",
        ),
        Setting(
            "TOOLHUB_CORS_ORIGINS",
            names(is_origin, "origins like https://app.example.org, or *"),
            (),
            "sites whose pages can use REST and MCP, with a key: https://app.example.org, or * for all",
            default_text="CORS_ORIGIN with CORS_ENABLED",
            of_site=True,
            deprecated="use CORS_ENABLED=true with CORS_ORIGIN, which takes the same values",
        ),
        Setting(
            "CORS_ENABLED",
            choice("true", "false"),
            "false",
            "true or false, no other words; true adds the sites in CORS_ORIGIN",
            of_site=True,
        ),
        Setting(
            "CORS_ORIGIN",
            names(),
            (),
            "sites whose pages can use REST and MCP, with a key: https://app.example.org, or * for all; required if "
            "CORS_ENABLED is true",
            of_site=True,
        ),
        Setting(
            "TOOLHUB_LINK_LOCAL_HOSTS",
            _lowered(
                names(
                    _matches(r"[a-z0-9.-]{1,253}|[0-9a-f:.]{2,45}"), "hosts like 169.254.10.1 or fe80::1, without port"
                )
            ),
            (),
            "link-local and cloud metadata hosts that connections can use",
        ),
        Setting(
            "TOOLHUB_BODY_SECONDS",
            seconds(1, 3600),
            30,
            "time limit for receiving the body of a request",
            of_site=True,
            deprecated="the limit will be 30 seconds",
        ),
    ),
)
_OAUTH: Final = Group(
    "tokens of an OAuth issuer",
    (
        Setting(
            "TOOLHUB_OAUTH_ISSUER",
            SECURE_ADDRESS,
            "",
            "accept bearer tokens of this issuer, too, e.g. https://login.example.org/realms/work; compared exactly",
        ),
        Setting(
            "TOOLHUB_OAUTH_AUDIENCE",
            names(),
            (),
            "accepted values of `aud`. Required if ALLOWED_HOSTS has wildcards",
            default_text="the hub’s own addresses",
        ),
        Setting(
            "TOOLHUB_OAUTH_JWKS_URL",
            SECURE_ADDRESS,
            "",
            "address of the issuer's keys, if its metadata does not have it",
        ),
        Setting(
            "TOOLHUB_OAUTH_SCOPES_CLAIM", LINE, "scope", "the claim with the scopes, e.g. scp, or realm_access.roles"
        ),
        Setting(
            "TOOLHUB_OAUTH_SCOPES",
            # `admin:*` is granted in the hub only.
            names(
                frozenset({"tools:list", "tools:read", "tools:execute", "tools:manage"}).__contains__,
                "tools:list, tools:read, tools:execute or tools:manage",
            ),
            (),
            "scopes of a token that names none, e.g. tools:list,tools:execute",
        ),
        Setting(
            "TOOLHUB_OAUTH_TOOLSETS",
            names(_matches(r"[A-Za-z0-9_.-]{1,64}"), "names of toolsets"),
            (),
            "toolsets that tokens are limited to; empty: all tools",
        ),
        Setting(
            "TOOLHUB_OAUTH_ACCESS",
            choice("read", "write", "destructive"),
            "destructive",
            "maximum access level of tokens: read, write (not destructive), destructive",
        ),
        Setting(
            "TOOLHUB_OAUTH_ASKS",
            choice("none", "destroys", "writes"),
            "none",
            "calls with tokens that require approval: none, destroys, writes",
        ),
        Setting(
            "TOOLHUB_OAUTH_BY_SCOPE",
            FLAG,
            False,
            "true: a token has only what its scopes name: toolset:NAME, tools:write, tools:destroy",
        ),
    ),
)
_STATE: Final = Group(
    "state",
    (
        Setting(
            "TOOLHUB_HOME",
            PATH,
            None,
            "directory for database, secrets and backups",
            default_text="var/ in a checkout, else the user’s data directory",
        ),
        Setting(
            "DATABASE_URL",
            DATABASE,
            None,
            "sqlite:///PATH or postgres://USER:PASSWORD@HOST:PORT/NAME",
            default_text="SQLite in TOOLHUB_HOME",
            is_secret=True,
            of_site=True,
        ),
        Setting(
            "TOOLHUB_REDIS_URL",
            REDIS,
            "",
            "Redis or Valkey in which the processes of the hub count limits together and share cached answers: "
            "redis://USER:PASSWORD@HOST:6379/0, rediss://… for TLS, or unix:///PATH",
            default_text="none: each process for itself",
            is_secret=True,
        ),
        Setting(
            "SECRET_KEY",
            LINE,
            "",
            "signs sessions and hashes API keys",
            default_text="generated, in TOOLHUB_HOME",
            is_secret=True,
            of_site=True,
        ),
        Setting(
            "SECRET_KEY_FALLBACKS",
            names(),
            (),
            "previous values, comma separated: API keys created under them stay valid",
            is_secret=True,
            of_site=True,
        ),
        Setting(
            "TOOLHUB_ENCRYPTION_KEY",
            LINE,
            "",
            "encrypts stored secrets. Several, comma separated: the first encrypts, all decrypt; "
            "`toolhub rotatesecrets` re-encrypts with the first",
            default_text="generated, in TOOLHUB_HOME",
            is_secret=True,
        ),
        Setting(
            "TOOLHUB_SECRETS_DIR",
            PATH.that(is_directory, "a directory that this user can read"),
            None,
            "directory of files with secrets, to which connections can refer as ${file:NAME}",
        ),
        Setting(
            "TOOLHUB_ISOLATE_PROGRAMS",
            FLAG,
            True,
            "keeps programs of sources from this hub's files, where Linux has Landlock; off for programs that mount "
            "file systems or change their user, such as podman and sudo",
        ),
        Setting(
            "TOOLHUB_TIME_ZONE",
            line(is_time_zone, "the name of a time zone like Asia/Tokyo"),
            "UTC",
            "time zone of the admin, like Asia/Tokyo; stored and sent times are UTC",
            of_site=True,
        ),
        Setting(
            "TOOLHUB_ENV_FILE",
            PATH,
            None,
            "another file than .env; the start fails if it does not exist",
            default_text=".env beside the package",
            of_site=True,
        ),
        Setting("TOOLHUB_APPS", names(), (), "Django apps to install; their tools.py is loaded", of_site=True),
    ),
)
_PEOPLE: Final = Group(
    "signing in",
    (
        Setting(
            "TOOLHUB_ADMIN_PASSWORD",
            LINE,
            "",
            "password of the first administrator",
            default_text="random, shown once",
            is_secret=True,
            of_site=True,
        ),
        Setting(
            "TOOLHUB_LOGIN_FAILURES",
            whole_number(3, 1_000),
            10,
            "wrong passwords for a name from one address until that pair is locked for 15 minutes; "
            "`manage.py axes_reset` unlocks at once",
            of_site=True,
            deprecated="ten wrong passwords will lock a name",
        ),
        Setting(
            "TOOLHUB_LOGIN_SECONDS",
            whole_number(1, _DAY),
            900,
            "how long a sign-in is locked",
            of_site=True,
            deprecated="it will be 15 minutes",
        ),
        Setting(
            "TOOLHUB_SESSION_SECONDS",
            whole_number(300, 30 * _DAY),
            43_200,
            "lifetime of an admin session",
            of_site=True,
        ),
        Setting(
            "TOOLHUB_SESSION_IDLE_SECONDS",
            whole_number(60, 30 * _DAY),
            7_200,
            "how long an admin session can be unused before it ends",
        ),
        Setting(
            "TOOLHUB_SSO_ISSUER",
            SECURE_ADDRESS.that(lambda url: len(url) <= 200, "at most 200 characters"),
            "",
            "sign in to the admin at this OpenID Connect provider, e.g. https://login.example.org/realms/work; "
            "compared exactly with `issuer` in its metadata",
            of_site=True,
        ),
        Setting("TOOLHUB_SSO_CLIENT_ID", LINE, "", "id of this hub at the provider", of_site=True),
        Setting(
            "TOOLHUB_SSO_CLIENT_SECRET",
            LINE,
            "",
            "secret of this hub at the provider",
            default_text="none: a public client",
            is_secret=True,
            of_site=True,
        ),
        Setting(
            "TOOLHUB_SSO_ROLES",
            names(
                _matches(r"[^=\s](?:.*[^\s])?=(?:viewer|operator|admin|superuser)"),
                "GROUP=ROLE, where ROLE is viewer, operator, admin or superuser",
            ),
            (),
            "which groups have which role, e.g. toolhub-admins=admin,toolhub-ops=operator; the highest one counts, and "
            "people without any have no access",
            of_site=True,
        ),
        Setting(
            "TOOLHUB_SSO_GROUPS_CLAIM",
            LINE,
            "groups",
            "the claim with the groups, e.g. realm_access.roles",
            of_site=True,
        ),
        Setting(
            "TOOLHUB_PASSWORD_SIGN_IN",
            FLAG,
            True,
            "false: people sign in at TOOLHUB_SSO_ISSUER only, and superusers with a link of `toolhub breakglass` "
            "in an emergency",
            of_site=True,
        ),
    ),
)
_LOGS: Final = Group(
    "logs",
    (
        Setting(
            "LOG_LEVEL",
            choice(*LOG_LEVELS),
            "info",
            "fatal, error, warn, info, debug (upstream URLs) or trace (upstream response bodies)",
            of_site=True,
        ),
        Setting(
            "TOOLHUB_LOG_FORMAT",
            choice("console", "json"),
            "console",
            "console or json (one line per event)",
            of_site=True,
        ),
        Setting(
            "TOOLHUB_LOG_FILE", PATH, None, "also write to this file; external rotation is supported", of_site=True
        ),
        Setting(
            "DEBUG",
            FLAG,
            False,
            "development only: error pages with internals; refused when listening beyond this machine",
            of_site=True,
        ),
    ),
)
_ALERTS: Final = Group(
    "alerts",
    (
        Setting(
            "EMAIL_URL",
            MAIL_SERVER,
            None,
            "mail server of alerts: smtp://USER:PASSWORD@HOST:587?from=hub@example.org, with smtp+tls:// for STARTTLS "
            "and smtp+ssl:// for TLS",
            default_text="alerts are not sent by e-mail",
            is_secret=True,
            of_site=True,
        ),
    ),
)
_TOOLS: Final = Group(
    "tools and calls",
    (
        Setting(
            "TOOLHUB_TOOLS_DIR",
            PATH,
            None,
            "directory whose *.py files are loaded as tools, and reloaded when they change",
        ),
        Setting(
            "TOOLHUB_SOURCES_TO_APPROVE",
            # Shipped tools, and tools registered by the operator's own code, need no approval.
            names(("plugin", "app", "file").__contains__, "plugin, app, file"),
            (),
            "sources whose new and changed tools require approval: plugin, app, file",
        ),
        Setting(
            "TOOLHUB_TIMEOUT_MS",
            whole_number(100, 120_000),
            30_000,
            "default timeout of a call; tool, pack and operator can set another",
        ),
        Setting(
            "TOOLHUB_RETRIES",
            whole_number(0, 3),
            0,
            "default retries of a call: only read-only or idempotent tools, only transient errors",
            deprecated="set the policy of a source or a tool instead; the default will be no retries",
        ),
        Setting(
            "TOOLHUB_RETRY_DELAY_MS",
            whole_number(100, 10_000),
            1_000,
            "delay before the first retry; doubles each time, with jitter",
            deprecated="set the policy of a source or a tool instead; the default will be one second",
        ),
        Setting("TOOLHUB_THREADS", whole_number(1, 256), 16, "threads for blocking tools"),
        Setting(
            "TOOLHUB_UPSTREAM_RUNNING",
            whole_number(1, 1_000),
            10,
            "concurrent calls of one upstream, in each process, or in all with TOOLHUB_REDIS_URL; 50 more wait in "
            "each, further ones are refused",
        ),
        Setting(
            "TOOLHUB_UPSTREAM_WAITING",
            whole_number(0, 10_000),
            50,
            "queued calls of one upstream; further ones are refused",
            deprecated="50 calls will be able to wait",
        ),
        Setting(
            "TOOLHUB_FILE_ROOT",
            PATH,
            None,
            "directory in which tools can read and create files, for callers on this machine only (stdio and shell, "
            "never over HTTP); files that an operator names, such as N8N_NODE_TYPES, are read for all callers",
        ),
        Setting(
            "TOOLHUB_ERROR_DETAIL",
            choice("none", "message"),
            "none",
            "message: callers also get the text of a tool's unexpected exception",
            default_text="none; message with DEBUG",
        ),
        Setting(
            "TOOLHUB_APPROVAL_SECONDS",
            whole_number(10, _DAY),
            900,
            "how long an approval request is pending, and how long a decision is valid",
        ),
        Setting(
            "TOOLHUB_TWO_PERSON_RULE",
            FLAG,
            False,
            "people do not approve their own calls, those of their keys, or tools of sources that they added",
        ),
        Setting(
            "TOOLHUB_OPERATORS_SEE_PAYLOADS",
            FLAG,
            False,
            "operators see arguments and answers of calls, as admins do; each reading is in the audit trail",
        ),
    ),
)
_RATES: Final = Group(
    "rate limits",
    (
        Setting(
            "TOOLHUB_RATE_CALLS",
            whole_number(0, 1_000_000),
            1_000,
            "calls per caller, tool and minute; 0: no limit. Local callers (stdio, shell) are limited only by an "
            "operator or a tool's author",
        ),
        Setting(
            "TOOLHUB_RATE_SECONDS",
            whole_number(1, _DAY),
            60,
            "period of TOOLHUB_RATE_CALLS",
            deprecated="TOOLHUB_RATE_CALLS will count by the minute",
        ),
        Setting(
            "TOOLHUB_KEY_RATE_CALLS",
            whole_number(0, 1_000_000),
            1_000,
            "requests per key (or user of the admin) and minute; 0: no limit",
        ),
        Setting(
            "TOOLHUB_KEY_RATE_SECONDS",
            whole_number(1, _DAY),
            60,
            "period of TOOLHUB_KEY_RATE_CALLS",
            deprecated="TOOLHUB_KEY_RATE_CALLS will count by the minute; a key can have a rate with another period",
        ),
        Setting(
            "TOOLHUB_ANONYMOUS_RATE_CALLS",
            whole_number(0, 1_000_000),
            60,
            "requests without a valid key per address and minute; 0: no limit",
        ),
    ),
)
_ANSWERS: Final = Group(
    "large and repeated responses",
    (
        Setting(
            "TOOLHUB_MAX_ANSWER_BYTES",
            whole_number(1024, 256 * _MIB),
            8 * _MIB,
            "a larger response is refused",
            deprecated="the limit will be 8 MiB",
        ),
        Setting(
            "TOOLHUB_ANSWER_TOKENS",
            whole_number(1_000, 1_000_000),
            25_000,
            "token budget of a response (bytes / 3); a larger one is stored, and its outline sent",
        ),
        Setting(
            "TOOLHUB_ANSWER_SECONDS",
            whole_number(0, 30 * _DAY),
            3_600,
            "how long such a response is stored; 0: not at all",
            deprecated="it will be an hour; TOOLHUB_ANSWERS_BYTES=0 stores none",
        ),
        Setting(
            "TOOLHUB_ANSWERS_BYTES",
            whole_number(0, 1024**4),
            256 * _MIB,
            "quota of stored responses in the database, 64 MiB of it for one caller; the oldest are deleted first; 0: "
            "none is stored",
        ),
        Setting(
            "TOOLHUB_ANSWERS_CALLER_BYTES",
            whole_number(0, 1024**4),
            64 * _MIB,
            "… per caller",
            deprecated="the quota per caller will be a quarter of TOOLHUB_ANSWERS_BYTES",
        ),
        Setting(
            "TOOLHUB_REPLIES_BYTES",
            whole_number(0, 1024**4),
            256 * _MIB,
            "quota of responses stored for idempotency keys, 64 MiB of it for one caller; the oldest are deleted "
            "first, and their calls are still not repeated",
            deprecated="the quota will be TOOLHUB_ANSWERS_BYTES",
        ),
        Setting(
            "TOOLHUB_REPLIES_CALLER_BYTES",
            whole_number(0, 1024**4),
            64 * _MIB,
            "… per caller",
            deprecated="the quota per caller will be a quarter of TOOLHUB_ANSWERS_BYTES",
        ),
        Setting(
            "TOOLHUB_CACHE_BYTES",
            whole_number(0, 16 * 1024**3),
            64 * _MIB,
            "memory for cached responses, in each process; 0: no cache",
            deprecated="it will be 64 MiB",
        ),
    ),
)
_MCP: Final = Group(
    "MCP",
    (
        Setting(
            "TOOLHUB_LIST_MODE",
            choice("direct", "search", "auto"),
            "direct",
            "how MCP clients find tools: direct (list all), search, or auto (search if the list is long); toolsets can "
            "override it",
        ),
        Setting(
            "TOOLHUB_LIST_DETAIL",
            choice("full", "lean", "minimal"),
            "lean",
            "how much of each tool agents read in lists: its whole definition (full), what they need of it (lean), or "
            "that without the form of its answers and without labels (minimal); toolsets can override it",
        ),
        Setting(
            "TOOLHUB_LIST_TOKENS",
            whole_number(0, 10_000_000),
            6_500,
            "auto: number of tokens above which a list is long",
            deprecated="set the mode of a toolset, or TOOLHUB_LIST_MODE; a list will be long above 6,500 tokens",
        ),
        Setting(
            "TOOLHUB_MCP_SESSIONS",
            whole_number(0, 100_000),
            1_000,
            "concurrent MCP sessions over HTTP; 0: none, every request is stateless, as always with several workers",
        ),
        Setting(
            "TOOLHUB_MCP_IDLE_SECONDS",
            whole_number(1, _DAY),
            600,
            "idle timeout of a session",
            deprecated="it will be 10 minutes",
        ),
        Setting(
            "TOOLHUB_ASK_SECONDS",
            whole_number(1, 3_600),
            300,
            "how long a tool waits for input from its client or user",
            deprecated="it will be 5 minutes",
        ),
        Setting(
            "TOOLHUB_WATCH_SECONDS",
            seconds(0.02, 60),
            0.2,
            "polling interval for changes that agents are notified of",
            deprecated="it will be 0.2 seconds",
        ),
    ),
)
_RETENTION: Final = Group(
    "retention",
    (
        Setting(
            "TOOLHUB_PAYLOADS",
            choice("none", "redacted", "full"),
            "redacted",
            "recorded arguments: none, redacted (at most 2 KB), or full (at most 64 KB, with the answer); secrets are "
            "always masked",
        ),
        Setting(
            "TOOLHUB_KEEP_PAYLOADS_DAYS", whole_number(1, 36_500), 14, "retention of recorded arguments and answers"
        ),
        Setting("TOOLHUB_KEEP_CALLS_DAYS", whole_number(1, 36_500), 90, "retention of calls and errors …"),
        Setting(
            "TOOLHUB_KEEP_CALLS",
            whole_number(1_000, 1_000_000_000),
            1_000_000,
            "… and their maximum number; the oldest are deleted first",
        ),
        Setting("TOOLHUB_KEEP_AUDIT_DAYS", whole_number(1, 36_500), 400, "retention of the audit trail"),
        Setting(
            "TOOLHUB_AUDIT_DIR",
            PATH,
            None,
            "directory to which a running hub exports the audit trail every ten minutes, as JSON Lines",
            default_text="no scheduled export",
        ),
        Setting("TOOLHUB_KEEP_FIGURES_DAYS", whole_number(1, 36_500), 730, "retention of hourly figures"),
    ),
)
_BACKUPS: Final = Group(
    "backups",
    (
        Setting(
            "TOOLHUB_BACKUP_DIR",
            PATH,
            None,
            "directory in which a running hub stores backups regularly, best on another disk",
            default_text="no scheduled backups",
        ),
        Setting("TOOLHUB_BACKUP_EVERY_HOURS", whole_number(1, 8_760), 24, "interval of scheduled backups"),
        Setting("TOOLHUB_BACKUP_KEEP", whole_number(1, 1_000), 7, "number of scheduled backups that are kept"),
        Setting(
            "TOOLHUB_BACKUP_PASSPHRASE",
            LINE,
            "",
            "at least 12 characters; backups contain the keys of this hub, encrypted with it, and a restore needs it. "
            "Empty: backups do not contain the keys",
            is_secret=True,
            of_site=True,
        ),
    ),
)
_WEB_SEARCH: Final = Group(
    "web search (docs/packs/websearch.md)",
    (
        Setting(
            "WEBSEARCH_ENGINES",
            names(("duckduckgo", "searxng").__contains__, "duckduckgo, searxng"),
            ("duckduckgo",),
            "engines in the order of use, the next if one fails: duckduckgo, searxng",
            default_text="duckduckgo; with WEBSEARCH_SEARXNG_URL searxng,duckduckgo",
        ),
        Setting(
            "WEBSEARCH_SEARXNG_URL",
            # An instance below /search ends with a slash.
            UPSTREAM.that(lambda url: not url.endswith("/search"), "the address of its start page, no /search"),
            "",
            "the start page of your SearXNG, without /search; with `json` in its search.formats",
        ),
        Setting("WEBSEARCH_MAX_RESULTS", whole_number(1, 30), 10, "default number of results"),
        Setting("WEBSEARCH_TIMEOUT_SECS", whole_number(1, 60), 10, "timeout of one request to an engine"),
        Setting(
            "WEBSEARCH_USER_AGENT",
            line(_matches(r"[!-~](?:[ -~]{0,198}[!-~])?"), "printable ASCII, at most 200 characters"),
            "websearch-mcp/0.1",
            "User-Agent header for engines and pages",
        ),
        Setting("WEBSEARCH_CACHE_TTL_SECS", whole_number(0, _DAY), 300, "cache time of answers; 0: no cache"),
        Setting(
            "WEBSEARCH_RATE_LIMIT_MS",
            whole_number(0, 60_000),
            1_000,
            "minimum interval between requests to engines, and to a host of pages, in each process; 0: none",
        ),
        Setting("WEBSEARCH_MAX_RETRIES", whole_number(0, 3), 2, "retries after network errors and timeouts"),
        Setting(
            "WEBSEARCH_REGION",
            _lowered(line(_matches("[a-z]{2}-[a-z]{2}"), "a country and a language like us-en, or wt-wt")),
            "",
            "country and language of results, like us-en or de-de; wt-wt: worldwide",
        ),
        Setting("WEBSEARCH_SAFE_SEARCH", choice("off", "moderate", "strict"), "moderate", "off, moderate or strict"),
        Setting(
            "WEBSEARCH_TIME_RANGE",
            choice("day", "week", "month", "year"),
            "",
            "only results of the last day, week, month or year",
        ),
        Setting(
            "WEBSEARCH_ROBOTS_TXT",
            FLAG,
            False,
            "true: read_page reads only pages that robots.txt of their site permits",
        ),
    ),
)
GROUPS: Final = (
    _LISTENING,
    _OAUTH,
    _STATE,
    _PEOPLE,
    _LOGS,
    _ALERTS,
    _TOOLS,
    _RATES,
    _ANSWERS,
    _MCP,
    _RETENTION,
    _BACKUPS,
    _WEB_SEARCH,
)
SETTINGS: Final = {setting.name: setting for group in GROUPS for setting in group.settings}

# What another Django project gets for settings that it does not have.
DEFAULTS: Final[dict[str, Any]] = {
    "TOOLHUB_NAME": "toolhub",
    "TOOLHUB_VERSION": "0",
    "TOOLHUB_GIVEN": None,
    "TOOLHUB_SET": None,
    "TOOLHUB_PACKS": PACKS,
    **{name: setting.default for name, setting in SETTINGS.items() if not setting.of_site},
}
