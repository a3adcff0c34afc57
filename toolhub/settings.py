"""All settings of the hub, read from the environment. `.env.example` describes each.

The defaults are for production; `DEBUG=1` is for development. A wrong value stops the start with the variable's name.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import environ
from django.core.exceptions import ImproperlyConfigured

from toolhub import __version__, home
from toolhub.environment import (
    Environment,
    is_header,
    is_host,
    is_name,
    is_network,
    is_one_host,
    is_origin,
    is_region,
    is_start_page,
    is_time_zone,
    is_token_scope,
)
from toolhub.unfold import UNFOLD as UNFOLD

PACKAGE = Path(__file__).resolve().parent
BASE_DIR = PACKAGE.parent

# Variables set before the .env file is read: other processes read the file themselves.
TOOLHUB_GIVEN = frozenset(os.environ)
ENV_FILE = Path(os.environ.get("TOOLHUB_ENV_FILE") or BASE_DIR / ".env")
if ENV_FILE.is_file():
    environ.Env.read_env(str(ENV_FILE))
env = Environment(os.environ)
if not ENV_FILE.exists() and os.environ.get("TOOLHUB_ENV_FILE"):
    # Otherwise its settings, such as a read-only flag, would be missing without notice.
    env.faults.append(f"TOOLHUB_ENV_FILE: there is no file {ENV_FILE}")

# Agents start `runmcp` for every session: to start fast, it skips what only browsers and REST clients need.
FOR_AGENTS_ONLY = os.environ.get("TOOLHUB_PROCESS") == "runmcp"

DEBUG = env.flag("DEBUG", False)

# --- state ---------------------------------------------------------------------------------------------------
TOOLHUB_HOME = env.path("TOOLHUB_HOME") or home.default_directory()
try:
    home.prepare(TOOLHUB_HOME)
    SECRET_KEY = env.text("SECRET_KEY") or home.secret(TOOLHUB_HOME, "secret_key")
    TOOLHUB_ENCRYPTION_KEY = env.text("TOOLHUB_ENCRYPTION_KEY") or home.secret(TOOLHUB_HOME, "encryption_key")
except OSError as error:
    raise ImproperlyConfigured(
        f"TOOLHUB_HOME: cannot use {error.filename or TOOLHUB_HOME} ({error.strerror}); "
        "set TOOLHUB_HOME to a directory that this user can write"
    ) from error
SECRET_KEY_FALLBACKS = env.names("SECRET_KEY_FALLBACKS")
# Any of these can forge sessions, and the first encryption key decrypts stored secrets. Old encryption keys may be
# weak: `rotatesecrets` needs them for re-encryption.
env.secret("SECRET_KEY_FALLBACKS", *SECRET_KEY_FALLBACKS)
env.secret("TOOLHUB_ENCRYPTION_KEY", TOOLHUB_ENCRYPTION_KEY.partition(",")[0].strip())

_database = env.database("DATABASE_URL", f"sqlite:///{TOOLHUB_HOME / 'toolhub.sqlite3'}")
if _database["ENGINE"].endswith("sqlite3"):
    _database["ENGINE"] = "toolhub.sqlite"
    _database["OPTIONS"] = {
        # WAL: readers do not wait for the writer. IMMEDIATE: a writer locks at BEGIN instead of failing later.
        # FULL: committed changes survive a power failure.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;",
        "transaction_mode": "IMMEDIATE",
        "timeout": 5,
    }
else:
    # Detect a dead server within seconds instead of hours.
    _patience = {"connect_timeout": 5, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
    _database["OPTIONS"] = {**_patience, "tcp_user_timeout": 10_000, **_database.get("OPTIONS", {})}
# Under ASGI every page runs in a new thread, so a persistent connection would never be reused. The threads of the
# engine and of REST keep theirs (see `tools_app/base/database.py`).
_database["CONN_MAX_AGE"] = 0
DATABASES = {"default": _database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- languages and times -------------------------------------------------------------------------------------
# Times are stored and sent in UTC; the admin shows them in this zone.
USE_TZ = True
TIME_ZONE = env.text("TOOLHUB_TIME_ZONE", "UTC")
env.checked("TOOLHUB_TIME_ZONE", TIME_ZONE, is_time_zone, "the name of a time zone like Asia/Tokyo")
# The admin uses the language of the browser. Answers for programs are never translated.
USE_I18N = not FOR_AGENTS_ONLY
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("ja", "日本語")]
LANGUAGE_COOKIE_NAME = "toolhub_language"
LANGUAGE_COOKIE_AGE = 365 * 86_400
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"

# --- where it listens ----------------------------------------------------------------------------------------
HOST = env.text("HOST", "127.0.0.1")
PORT = env.number("PORT", 3000, 1, 65535)
ALLOWED_HOSTS = env.names("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.names("CSRF_TRUSTED_ORIGINS")
for _origin in CSRF_TRUSTED_ORIGINS:
    env.checked("CSRF_TRUSTED_ORIGINS", _origin, lambda origin: "://" in origin, "origins like https://hub.example.org")
TOOLHUB_HTTPS = env.flag("TOOLHUB_HTTPS", False)
TOOLHUB_TRUSTED_PROXIES = env.names("TOOLHUB_TRUSTED_PROXIES")
for _proxy in TOOLHUB_TRUSTED_PROXIES:
    env.checked("TOOLHUB_TRUSTED_PROXIES", _proxy, is_network, "addresses and networks like 10.0.0.0/8")
TOOLHUB_CORS_ORIGINS = env.names("TOOLHUB_CORS_ORIGINS")
for _origin in TOOLHUB_CORS_ORIGINS:
    env.checked("TOOLHUB_CORS_ORIGINS", _origin, is_origin, "origins like https://app.example.org, or *")
# The same with a separate flag. Without an origin the start fails, as a default of `*` would allow every site.
CORS_ENABLED = env.choice("CORS_ENABLED", "false", ("true", "false")) == "true"
CORS_ORIGIN = env.names("CORS_ORIGIN")
if CORS_ENABLED:
    for _origin in CORS_ORIGIN or [""]:
        env.checked("CORS_ORIGIN", _origin, is_origin, "origins like https://app.example.org, or *, with CORS_ENABLED")
    TOOLHUB_CORS_ORIGINS += CORS_ORIGIN
TOOLHUB_LINK_LOCAL_HOSTS = [host.lower() for host in env.names("TOOLHUB_LINK_LOCAL_HOSTS")]
for _host in TOOLHUB_LINK_LOCAL_HOSTS:
    env.checked("TOOLHUB_LINK_LOCAL_HOSTS", _host, is_host, "hosts like 169.254.10.1 or fe80::1, without port")
# The issuer whose bearer tokens are accepted beside API keys. Its name is compared exactly.
TOOLHUB_OAUTH_ISSUER = env.address("TOOLHUB_OAUTH_ISSUER")
TOOLHUB_OAUTH_AUDIENCE = env.names("TOOLHUB_OAUTH_AUDIENCE")
TOOLHUB_OAUTH_JWKS_URL = env.address("TOOLHUB_OAUTH_JWKS_URL")
TOOLHUB_OAUTH_SCOPES_CLAIM = env.text("TOOLHUB_OAUTH_SCOPES_CLAIM", "scope")
TOOLHUB_OAUTH_SCOPES = env.names("TOOLHUB_OAUTH_SCOPES")
for _scope in TOOLHUB_OAUTH_SCOPES:
    env.checked("TOOLHUB_OAUTH_SCOPES", _scope, is_token_scope, "tools:list, tools:read, tools:execute or tools:manage")
# Upper limits for all tokens.
TOOLHUB_OAUTH_TOOLSETS = env.names("TOOLHUB_OAUTH_TOOLSETS")
for _toolset in TOOLHUB_OAUTH_TOOLSETS:
    env.checked("TOOLHUB_OAUTH_TOOLSETS", _toolset, is_name, "names of toolsets")
TOOLHUB_OAUTH_ACCESS = env.choice("TOOLHUB_OAUTH_ACCESS", "destructive", ("read", "write", "destructive"))
TOOLHUB_OAUTH_ASKS = env.choice("TOOLHUB_OAUTH_ASKS", "none", ("none", "destroys", "writes"))
TOOLHUB_OAUTH_BY_SCOPE = env.flag("TOOLHUB_OAUTH_BY_SCOPE", False)
if TOOLHUB_OAUTH_ISSUER and not TOOLHUB_OAUTH_AUDIENCE:
    # Otherwise this hub would accept a token for another hub, if it is addressed by that one's name.
    for _host in ALLOWED_HOSTS:
        env.checked("TOOLHUB_OAUTH_AUDIENCE", _host, is_one_host, "a name for this hub, as ALLOWED_HOSTS allows any")
TOOLHUB_BODY_SECONDS = env.seconds("TOOLHUB_BODY_SECONDS", 30, 1, 3600)

# --- logs ----------------------------------------------------------------------------------------------------
LOG_LEVELS = ("fatal", "error", "warn", "info", "debug", "trace")
LOG_LEVEL = env.choice("LOG_LEVEL", "info", LOG_LEVELS)
TOOLHUB_LOG_FORMAT = env.choice("TOOLHUB_LOG_FORMAT", "console", ("console", "json"))
TOOLHUB_LOG_FILE = env.path("TOOLHUB_LOG_FILE")
LOGGING_CONFIG = "tools_app.base.logs.configure"
LOGGING = {"level": LOG_LEVEL, "format": TOOLHUB_LOG_FORMAT, "file": TOOLHUB_LOG_FILE}

# --- tools and calls -----------------------------------------------------------------------------------------
TOOLHUB_NAME = "toolhub"
TOOLHUB_VERSION = __version__
TOOLHUB_PACKS: tuple[str, ...] = (
    "tools_app.packs.builtin",
    "tools_app.packs.finding",
    "tools_app.packs.n8n",
    "tools_app.packs.redmine",
    "tools_app.packs.websearch",
)
TOOLHUB_TOOLS_DIR = env.path("TOOLHUB_TOOLS_DIR")
TOOLHUB_FILE_ROOT = env.path("TOOLHUB_FILE_ROOT")
TOOLHUB_TIMEOUT_MS = env.number("TOOLHUB_TIMEOUT_MS", 30_000, 100, 120_000)
TOOLHUB_RETRIES = env.number("TOOLHUB_RETRIES", 0, 0, 3)
TOOLHUB_RETRY_DELAY_MS = env.number("TOOLHUB_RETRY_DELAY_MS", 1_000, 100, 10_000)
TOOLHUB_RATE_CALLS = env.number("TOOLHUB_RATE_CALLS", 1_000, 0, 1_000_000)
TOOLHUB_RATE_SECONDS = env.number("TOOLHUB_RATE_SECONDS", 60, 1, 86_400)
TOOLHUB_KEY_RATE_CALLS = env.number("TOOLHUB_KEY_RATE_CALLS", 1_000, 0, 1_000_000)
TOOLHUB_KEY_RATE_SECONDS = env.number("TOOLHUB_KEY_RATE_SECONDS", 60, 1, 86_400)
TOOLHUB_ANONYMOUS_RATE_CALLS = env.number("TOOLHUB_ANONYMOUS_RATE_CALLS", 60, 0, 1_000_000)
TOOLHUB_UPSTREAM_RUNNING = env.number("TOOLHUB_UPSTREAM_RUNNING", 10, 1, 1_000)
TOOLHUB_UPSTREAM_WAITING = env.number("TOOLHUB_UPSTREAM_WAITING", 50, 0, 10_000)
TOOLHUB_THREADS = env.number("TOOLHUB_THREADS", 16, 1, 256)
TOOLHUB_WATCH_SECONDS = env.seconds("TOOLHUB_WATCH_SECONDS", 0.2, 0.02, 60)
TOOLHUB_ERROR_DETAIL = env.choice("TOOLHUB_ERROR_DETAIL", "message" if DEBUG else "none", ("none", "message"))
TOOLHUB_MAX_ANSWER_BYTES = env.number("TOOLHUB_MAX_ANSWER_BYTES", 8 * 1024 * 1024, 1024, 256 * 1024 * 1024)
TOOLHUB_ANSWER_TOKENS = env.number("TOOLHUB_ANSWER_TOKENS", 25_000, 1_000, 1_000_000)
TOOLHUB_ANSWER_SECONDS = env.number("TOOLHUB_ANSWER_SECONDS", 3_600, 0, 30 * 86_400)
TOOLHUB_ANSWERS_BYTES = env.number("TOOLHUB_ANSWERS_BYTES", 256 * 1024 * 1024, 0, 1024**4)
TOOLHUB_ANSWERS_CALLER_BYTES = env.number("TOOLHUB_ANSWERS_CALLER_BYTES", 64 * 1024 * 1024, 0, 1024**4)
TOOLHUB_REPLIES_BYTES = env.number("TOOLHUB_REPLIES_BYTES", 256 * 1024 * 1024, 0, 1024**4)
TOOLHUB_REPLIES_CALLER_BYTES = env.number("TOOLHUB_REPLIES_CALLER_BYTES", 64 * 1024 * 1024, 0, 1024**4)
TOOLHUB_CACHE_BYTES = env.number("TOOLHUB_CACHE_BYTES", 64 * 1024 * 1024, 0, 16 * 1024**3)
TOOLHUB_LIST_MODE = env.choice("TOOLHUB_LIST_MODE", "direct", ("direct", "search", "auto"))
TOOLHUB_LIST_TOKENS = env.number("TOOLHUB_LIST_TOKENS", 6_500, 0, 10_000_000)
TOOLHUB_MCP_SESSIONS = env.number("TOOLHUB_MCP_SESSIONS", 1_000, 0, 100_000)
TOOLHUB_MCP_IDLE_SECONDS = env.number("TOOLHUB_MCP_IDLE_SECONDS", 600, 1, 86_400)
TOOLHUB_ASK_SECONDS = env.number("TOOLHUB_ASK_SECONDS", 300, 1, 3_600)
TOOLHUB_APPROVAL_SECONDS = env.number("TOOLHUB_APPROVAL_SECONDS", 900, 10, 86_400)
# Shipped tools, and tools registered by the operator's own code, need no approval.
TOOLHUB_SOURCES_TO_APPROVE = env.names("TOOLHUB_SOURCES_TO_APPROVE")
for _source in TOOLHUB_SOURCES_TO_APPROVE:
    env.checked(
        "TOOLHUB_SOURCES_TO_APPROVE", _source, lambda name: name in ("plugin", "app", "file"), "plugin, app, file"
    )

# --- retention -----------------------------------------------------------------------------------------------
TOOLHUB_PAYLOADS = env.choice("TOOLHUB_PAYLOADS", "redacted", ("none", "redacted", "full"))
TOOLHUB_KEEP_PAYLOADS_DAYS = env.number("TOOLHUB_KEEP_PAYLOADS_DAYS", 14, 1, 36_500)
TOOLHUB_KEEP_CALLS_DAYS = env.number("TOOLHUB_KEEP_CALLS_DAYS", 90, 1, 36_500)
TOOLHUB_KEEP_CALLS = env.number("TOOLHUB_KEEP_CALLS", 1_000_000, 1_000, 1_000_000_000)
TOOLHUB_KEEP_AUDIT_DAYS = env.number("TOOLHUB_KEEP_AUDIT_DAYS", 400, 1, 36_500)
TOOLHUB_KEEP_FIGURES_DAYS = env.number("TOOLHUB_KEEP_FIGURES_DAYS", 730, 1, 36_500)

# --- web search ----------------------------------------------------------------------------------------------
WEBSEARCH_SEARXNG_URL = env.upstream("WEBSEARCH_SEARXNG_URL")
env.checked("WEBSEARCH_SEARXNG_URL", WEBSEARCH_SEARXNG_URL, is_start_page, "the address of its start page, no /search")
# An operator who runs a SearXNG wants it asked first.
WEBSEARCH_ENGINES = env.names(
    "WEBSEARCH_ENGINES", ["searxng", "duckduckgo"] if WEBSEARCH_SEARXNG_URL else ["duckduckgo"]
)
for _engine in WEBSEARCH_ENGINES:
    env.checked("WEBSEARCH_ENGINES", _engine, lambda name: name in ("duckduckgo", "searxng"), "duckduckgo, searxng")
if "searxng" in WEBSEARCH_ENGINES:
    env.checked("WEBSEARCH_SEARXNG_URL", WEBSEARCH_SEARXNG_URL, bool, "the address of the searxng in WEBSEARCH_ENGINES")
WEBSEARCH_MAX_RESULTS = env.number("WEBSEARCH_MAX_RESULTS", 10, 1, 30)
WEBSEARCH_TIMEOUT_SECS = env.number("WEBSEARCH_TIMEOUT_SECS", 10, 1, 60)
WEBSEARCH_USER_AGENT = env.text("WEBSEARCH_USER_AGENT", "websearch-mcp/0.1")
env.checked("WEBSEARCH_USER_AGENT", WEBSEARCH_USER_AGENT, is_header, "printable ASCII, at most 200 characters")
WEBSEARCH_CACHE_TTL_SECS = env.number("WEBSEARCH_CACHE_TTL_SECS", 300, 0, 86_400)
WEBSEARCH_RATE_LIMIT_MS = env.number("WEBSEARCH_RATE_LIMIT_MS", 1_000, 0, 60_000)
WEBSEARCH_MAX_RETRIES = env.number("WEBSEARCH_MAX_RETRIES", 2, 0, 3)
WEBSEARCH_REGION = env.text("WEBSEARCH_REGION").lower()
if WEBSEARCH_REGION:
    env.checked("WEBSEARCH_REGION", WEBSEARCH_REGION, is_region, "a country and a language like us-en, or wt-wt")
WEBSEARCH_SAFE_SEARCH = env.choice("WEBSEARCH_SAFE_SEARCH", "moderate", ("off", "moderate", "strict"))
WEBSEARCH_TIME_RANGE = env.choice("WEBSEARCH_TIME_RANGE", "", ("", "day", "week", "month", "year"))

# --- people: the first administrator, wrong passwords, sessions ----------------------------------------------
TOOLHUB_ADMIN_PASSWORD = env.text("TOOLHUB_ADMIN_PASSWORD")
TOOLHUB_LOGIN_FAILURES = env.number("TOOLHUB_LOGIN_FAILURES", 10, 3, 1_000)
TOOLHUB_LOGIN_SECONDS = env.number("TOOLHUB_LOGIN_SECONDS", 900, 1, 86_400)
TOOLHUB_SESSION_SECONDS = env.number("TOOLHUB_SESSION_SECONDS", 12 * 3600, 300, 30 * 86_400)
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024

env.finish()

# --- Django --------------------------------------------------------------------------------------------------
AGENT_APPS = ["tools_app", "django.contrib.auth", "django.contrib.contenttypes"]
BROWSER_APPS = [
    "unfold",
    "axes",
    "django.contrib.admin",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "servestatic",
    "ninja",
]
INSTALLED_APPS = [*([] if FOR_AGENTS_ONLY else BROWSER_APPS), *AGENT_APPS, *env.names("TOOLHUB_APPS")]

ROOT_URLCONF = "toolhub.urls"
DEFAULT_EXCEPTION_REPORTER = "toolhub.error_pages.Report"
ASGI_APPLICATION = "toolhub.asgi.application"
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "toolhub.origins.on_record",
    "servestatic.middleware.ServeStaticMiddleware",  # not for `serve`: toolhub/static.py
    "django.contrib.sessions.middleware.SessionMiddleware",
    "toolhub.languages.PagesInTheirLanguage",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "toolhub.signing_in.SlowedDown",
    "axes.middleware.AxesMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        # Templates are at the top of a checkout, and inside this package in a wheel.
        "DIRS": [path for path in (BASE_DIR / "templates", PACKAGE / "templates") if path.is_dir()],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "tools_app.admin.stops.banner",
            ]
        },
    }
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
AUTHENTICATION_BACKENDS = [
    *([] if FOR_AGENTS_ONLY else ["axes.backends.AxesStandaloneBackend"]),
    "django.contrib.auth.backends.ModelBackend",
]
# A name is locked per address, so that an attacker elsewhere cannot lock out the user.
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_FAILURE_LIMIT = TOOLHUB_LOGIN_FAILURES
AXES_COOLOFF_TIME = timedelta(seconds=TOOLHUB_LOGIN_SECONDS)
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_CALLABLE = "toolhub.signing_in.locked"
AXES_ENABLE_ADMIN = False
# Not needed for locking.
AXES_DISABLE_ACCESS_LOG = True
AXES_VERBOSE = False
# Trusted proxies are resolved before Django: REMOTE_ADDR is the client's address.
AXES_CLIENT_IP_CALLABLE = "toolhub.signing_in.address"
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"

# Served from the installed packages (`toolhub/static.py`): no `collectstatic` is needed.
STATIC_URL = "/static/"
STATIC_ROOT = TOOLHUB_HOME / "static"
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = DEBUG
SERVESTATIC_MAX_AGE = 3600

# Browsers send cookies to every port of a host: unique names avoid conflicts with other programs there. Over HTTPS,
# `__Host-` makes the browser refuse cookies set by other hosts.
_prefix = "__Host-" if TOOLHUB_HTTPS else ""
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"{_prefix}toolhub_session", f"{_prefix}toolhub_csrf"
SESSION_COOKIE_AGE = TOOLHUB_SESSION_SECONDS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = TOOLHUB_HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if TOOLHUB_HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = TOOLHUB_HTTPS
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
