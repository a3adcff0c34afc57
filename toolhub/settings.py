"""The settings of the hub's own site, read from the environment by the table in `tools_app/base/setting_table.py`.

The defaults are for production; `DEBUG=1` is for development. A wrong value stops the start with the variable's name.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from toolhub import __version__, home
from toolhub.environment import Environment
from toolhub.unfold import UNFOLD, icons
from tools_app.base import otlp, sdk_imports, setting_table

PACKAGE = Path(__file__).resolve().parent
BASE_DIR = PACKAGE.parent

# Variables set before the .env file is read, as other processes read the file themselves, and after.
TOOLHUB_GIVEN = frozenset(os.environ)
ENV_FILE = Path(os.environ.get("TOOLHUB_ENV_FILE") or BASE_DIR / ".env")
if ENV_FILE.is_file():
    environ.Env.read_env(str(ENV_FILE))
TOOLHUB_SET = frozenset(os.environ)
env = Environment(os.environ)
if not ENV_FILE.exists() and os.environ.get("TOOLHUB_ENV_FILE"):
    # Otherwise its settings, such as a read-only flag, would be missing without notice.
    env.faults.append(f"TOOLHUB_ENV_FILE: there is no file {ENV_FILE}")

# Agents start `runmcp` for every session: to start fast, it skips what only browsers and REST clients need.
FOR_AGENTS_ONLY = os.environ.get("TOOLHUB_PROCESS") == "runmcp"

DEBUG: bool = env("DEBUG")

# --- state ---------------------------------------------------------------------------------------------------
TOOLHUB_HOME: Path = env("TOOLHUB_HOME") or home.default_directory()
try:
    home.prepare(TOOLHUB_HOME)
    SECRET_KEY: str = env("SECRET_KEY") or home.secret(TOOLHUB_HOME, "secret_key")
    TOOLHUB_ENCRYPTION_KEY: str = env("TOOLHUB_ENCRYPTION_KEY") or home.secret(TOOLHUB_HOME, "encryption_key")
except OSError as error:
    raise ImproperlyConfigured(
        f"TOOLHUB_HOME: cannot use {error.filename or TOOLHUB_HOME} ({error.strerror}); "
        "set TOOLHUB_HOME to a directory that this user can write"
    ) from error
SECRET_KEY_FALLBACKS: list[str] = env("SECRET_KEY_FALLBACKS")
# Any of these can forge sessions, and the first encryption key decrypts stored secrets. Old encryption keys may be
# weak: `rotatesecrets` needs them for re-encryption.
env.secret("SECRET_KEY_FALLBACKS", *SECRET_KEY_FALLBACKS)
env.secret("TOOLHUB_ENCRYPTION_KEY", TOOLHUB_ENCRYPTION_KEY.partition(",")[0].strip())

_database: dict[str, Any] = env("DATABASE_URL") or setting_table.DATABASE(
    f"sqlite:///{TOOLHUB_HOME / 'toolhub.sqlite3'}"
)
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
TIME_ZONE: str = env("TOOLHUB_TIME_ZONE")
# The admin uses the language of the browser. Answers for programs are never translated.
USE_I18N = not FOR_AGENTS_ONLY
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("ja", "日本語")]
LANGUAGE_COOKIE_NAME = "toolhub_language"
LANGUAGE_COOKIE_AGE = 365 * 86_400
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"

# --- where it listens ----------------------------------------------------------------------------------------
HOST: str = env("HOST")
PORT: int = env("PORT")
ALLOWED_HOSTS: list[str] = env("ALLOWED_HOSTS")
# Behind a proxy, this address is all that says how browsers reach the hub.
_public = urlsplit(env("TOOLHUB_PUBLIC_URL"))
_own_origins = [f"{_public.scheme}://{_public.netloc}"] if _public.netloc else []
CSRF_TRUSTED_ORIGINS: list[str] = [*env("CSRF_TRUSTED_ORIGINS"), *_own_origins]
TOOLHUB_HTTPS: bool = env("TOOLHUB_HTTPS")
TOOLHUB_TRUSTED_PROXIES: list[str] = env("TOOLHUB_TRUSTED_PROXIES")
TOOLHUB_BODY_SECONDS: float = env("TOOLHUB_BODY_SECONDS")
TOOLHUB_CORS_ORIGINS: list[str] = env("TOOLHUB_CORS_ORIGINS")
# The same with a separate flag. Without an origin the start fails, as a default of `*` would allow every site.
CORS_ENABLED = env("CORS_ENABLED") == "true"
CORS_ORIGIN: list[str] = env("CORS_ORIGIN")
if CORS_ENABLED:
    for _origin in CORS_ORIGIN or [""]:
        _expected = "origins like https://app.example.org, or *, with CORS_ENABLED"
        env.require("CORS_ORIGIN", _origin, setting_table.is_origin, _expected)
    TOOLHUB_CORS_ORIGINS = [*TOOLHUB_CORS_ORIGINS, *CORS_ORIGIN]
if env("TOOLHUB_OAUTH_ISSUER") and not env("TOOLHUB_OAUTH_AUDIENCE"):
    # Otherwise this hub would accept a token for another hub, if it is addressed by that one's name.
    for _host in ALLOWED_HOSTS:
        _expected = "a name for this hub, as ALLOWED_HOSTS allows any"
        env.require("TOOLHUB_OAUTH_AUDIENCE", _host, lambda host: not host.startswith((".", "*")), _expected)

# --- logs ----------------------------------------------------------------------------------------------------
LOG_LEVELS = setting_table.LOG_LEVELS
LOG_LEVEL: str = env("LOG_LEVEL")
LOGGING_CONFIG = "tools_app.base.logs.configure"
LOGGING = {"level": LOG_LEVEL, "format": env("TOOLHUB_LOG_FORMAT"), "file": env("TOOLHUB_LOG_FILE")}

# --- tools, people -------------------------------------------------------------------------------------------
TOOLHUB_NAME = "toolhub"
TOOLHUB_VERSION = __version__
TOOLHUB_PACKS: tuple[str, ...] = setting_table.PACKS
TOOLHUB_ERROR_DETAIL: str = env("TOOLHUB_ERROR_DETAIL", "message" if DEBUG else "none")
TOOLHUB_ADMIN_PASSWORD: str = env("TOOLHUB_ADMIN_PASSWORD")
TOOLHUB_LOGIN_FAILURES: int = env("TOOLHUB_LOGIN_FAILURES")
TOOLHUB_LOGIN_SECONDS: int = env("TOOLHUB_LOGIN_SECONDS")
TOOLHUB_SESSION_SECONDS: int = env("TOOLHUB_SESSION_SECONDS")
_mail: dict[str, Any] | None = env("EMAIL_URL")
# Whether it is set; its parts are Django's settings.
EMAIL_URL = _mail is not None
globals().update(_mail or {"EMAIL_HOST": ""})
EMAIL_TIMEOUT = 10
TOOLHUB_SSO_ISSUER: str = env("TOOLHUB_SSO_ISSUER")
TOOLHUB_SSO_CLIENT_ID: str = env("TOOLHUB_SSO_CLIENT_ID")
TOOLHUB_SSO_CLIENT_SECRET: str = env("TOOLHUB_SSO_CLIENT_SECRET")
TOOLHUB_SSO_ROLES: list[str] = env("TOOLHUB_SSO_ROLES")
TOOLHUB_SSO_GROUPS_CLAIM: str = env("TOOLHUB_SSO_GROUPS_CLAIM")
TOOLHUB_PASSWORD_SIGN_IN: bool = env("TOOLHUB_PASSWORD_SIGN_IN")
if TOOLHUB_SSO_ISSUER:
    env.require("TOOLHUB_SSO_CLIENT_ID", TOOLHUB_SSO_CLIENT_ID, bool, "the id of this hub at TOOLHUB_SSO_ISSUER")
    env.require("TOOLHUB_SSO_ROLES", TOOLHUB_SSO_ROLES, bool, "GROUP=ROLE, without which no person has access")
elif TOOLHUB_SSO_CLIENT_ID or TOOLHUB_SSO_CLIENT_SECRET or TOOLHUB_SSO_ROLES:
    env.require("TOOLHUB_SSO_ISSUER", "", bool, "the provider of the other TOOLHUB_SSO settings")
elif not TOOLHUB_PASSWORD_SIGN_IN:
    env.require("TOOLHUB_PASSWORD_SIGN_IN", "false", lambda _: False, "true, as there is no TOOLHUB_SSO_ISSUER")
TOOLHUB_REDIS_URL: str = env("TOOLHUB_REDIS_URL")
TOOLHUB_BACKUP_PASSPHRASE: str = env("TOOLHUB_BACKUP_PASSPHRASE")
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
# The operations of an OpenAPI document have a field each.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 6_000
# An operator who runs a SearXNG wants it asked first.
WEBSEARCH_SEARXNG_URL: str = env("WEBSEARCH_SEARXNG_URL")
WEBSEARCH_ENGINES: list[str] = env("WEBSEARCH_ENGINES", ("searxng", "duckduckgo") if WEBSEARCH_SEARXNG_URL else None)
if "searxng" in WEBSEARCH_ENGINES:
    env.require("WEBSEARCH_SEARXNG_URL", WEBSEARCH_SEARXNG_URL, bool, "the address of the searxng in WEBSEARCH_ENGINES")

TOOLHUB_ENV_FILE = ENV_FILE
# All other settings have no other effect here than their name.
globals().update({name: value for name, value in env.values().items() if name not in globals()})
try:
    if otlp.ratio(os.environ) is None:
        sdk_imports.leave_out_traces()
except ImproperlyConfigured as error:
    env.faults.append(str(error))
env.finish()

# --- Django --------------------------------------------------------------------------------------------------
AGENT_APPS = ["tools_app", "django.contrib.auth", "django.contrib.contenttypes"]
BROWSER_APPS = [
    "unfold",
    "axes",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.mfa",
    "django.contrib.admin",
    "toolhub.second_factor",  # after the admin, from which it removes pages of allauth
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "ninja",
]
INSTALLED_APPS = [*([] if FOR_AGENTS_ONLY else BROWSER_APPS), *AGENT_APPS, *env("TOOLHUB_APPS")]

if not env("TOOLHUB_APPS"):  # Their pages may show any icon of the theme.
    UNFOLD["STYLES"] = [icons]

ROOT_URLCONF = "toolhub.no_urls" if FOR_AGENTS_ONLY else "toolhub.urls"
DEFAULT_EXCEPTION_REPORTER = "toolhub.error_pages.Report"
ASGI_APPLICATION = "toolhub.asgi.application"
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "toolhub.origins.on_record",
    "toolhub.static.CompressedPages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "toolhub.languages.PagesInTheirLanguage",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "toolhub.sessions.FollowedSessions",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "toolhub.signing_in.SlowedDown",
    "allauth.account.middleware.AccountMiddleware",
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
# Each can refuse a sign-in; none signs in.
SIGN_IN_CHECKS = [
    "axes.backends.AxesStandaloneBackend",
    "toolhub.signing_in.PasswordsOfLocalUsers",
    "toolhub.sign_in_form.DeactivatedUsers",
]
AUTHENTICATION_BACKENDS = [
    *([] if FOR_AGENTS_ONLY else SIGN_IN_CHECKS),
    "django.contrib.auth.backends.ModelBackend",
    # Sessions end when the backend that began them is not in this list any more.
    *([] if FOR_AGENTS_ONLY else ["toolhub.break_glass.Backend"]),
    *(["toolhub.sso.people.Backend"] if TOOLHUB_SSO_ISSUER and not FOR_AGENTS_ONLY else []),
]
# allauth has no pages here: `toolhub.sso` uses its provider and its table of accounts (decision 74).
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
SOCIALACCOUNT_STORE_TOKENS = False
MFA_ADAPTER = "toolhub.second_factor.adapter.Adapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_RECOVERY_CODE_DIGITS = 10
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
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "toolhub.static.Storage"},
}

# Browsers send cookies to every port of a host: unique names avoid conflicts with other programs there. Over HTTPS,
# `__Host-` makes the browser refuse cookies set by other hosts.
_prefix = "__Host-" if TOOLHUB_HTTPS else ""
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"{_prefix}toolhub_session", f"{_prefix}toolhub_csrf"
SESSION_COOKIE_AGE = TOOLHUB_SESSION_SECONDS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = TOOLHUB_HTTPS
# Probes of container platforms ask the process itself, without the proxy that has the certificate.
SECURE_REDIRECT_EXEMPT = [r"^health$"]
SECURE_HSTS_SECONDS = 31_536_000 if TOOLHUB_HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = TOOLHUB_HTTPS
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
