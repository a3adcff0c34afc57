# ruff: noqa: E501 – one line for each table
"""What the hub stores, for operators and auditors: every table and file, how long, how protected and what removes it.

How long comes from the rules of retention, and sizes from the database. A test compares the tables with the schema, and
the files with those of a running hub.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.db import connection
from django.utils.translation import gettext_noop as _

from tools_app.base import conf
from tools_app.journal import disk
from tools_app.journal.retention.pruning import RULES
from tools_app.models import text_index

# Rows are counted up to this number, and estimated on PostgreSQL.
MOST_COUNTED: Final = 100_000
# SQLite reads a whole file to tell the sizes of its tables.
MOST_MEASURED: Final = 64 << 20

PLAIN: Final = _("not encrypted")
ENCRYPTED: Final = _("encrypted (TOOLHUB_ENCRYPTION_KEY)")
HASH: Final = _("only a hash")
UNTIL_DELETED: Final = _("until deleted")
FORGET: Final = _("forget, retention")
RETENTION: Final = _("retention")
OPERATOR: Final = _("operators")
ITSELF: Final = _("the hub itself")
WITH_SOURCE: Final = _("removal of the source")
WITH_CALL: Final = _("whatever removes the arguments of the call")
OWNER: Final = _("the owner of the machine")


@dataclass(frozen=True)
class Holding:
    """One table, or files of one kind."""

    # Name of the table, or pattern of names of files.
    name: str
    what: str
    removed_by: str
    is_personal: bool = False
    protection: str = PLAIN
    # Where no rule of retention with a setting says it.
    kept: str = UNTIL_DELETED


@dataclass(frozen=True)
class HoldingInForce:
    """A holding as it is now. `rows` and `size` are None where they are not known at a reasonable cost."""

    holding: Holding
    place: str
    rows: int | None
    size: int | None
    # The settings that decide how long, with their values.
    settings: tuple[tuple[str, int], ...] = ()

    @property
    def has_more(self) -> bool:
        """Whether there are more rows than were counted."""
        return self.rows is not None and connection.vendor == "sqlite" and self.rows > MOST_COUNTED

    @property
    def number(self) -> str:
        """Of its rows or files."""
        if self.rows is None:
            return ""
        return f"> {MOST_COUNTED:,}" if self.has_more else f"{self.rows:,}"

    @property
    def kept(self) -> str:
        """How long, in words; empty if settings alone decide."""
        return "" if self.settings and self.holding.kept == UNTIL_DELETED else self.holding.kept

    @property
    def settings_in_words(self) -> str:
        return "; ".join(f"{name}={value:,}" for name, value in self.settings)


TABLES: Final = (
    # Activity
    Holding("tools_app_call", _("calls: caller, tool, outcome, times; arguments and answers as TOOLHUB_PAYLOADS says"), FORGET, True),
    Holding("tools_app_callhour", _("number and duration of calls by hour, tool and caller"), FORGET, True),
    Holding("tools_app_pendingcount", _("calls that are not yet counted"), FORGET, True, kept=_("seconds")),
    Holding("tools_app_calltext", _("arguments of calls once more, as stored there, with the index that finds parts of them"), WITH_CALL, True, kept=_("as long as the arguments of the call")),
    Holding("tools_app_pendingtext", _("calls whose arguments are not yet in that index"), ITSELF, kept=_("seconds")),
    Holding("tools_app_savedview", _("saved views: name, owner, search and filters"), OPERATOR, True),
    Holding("tools_app_budgetuse", _("calls and tokens by day of keys and toolsets that have a budget"), RETENTION, kept=_("62 days")),
    Holding("tools_app_errorlog", _("error events with stack trace"), FORGET, True),
    Holding("tools_app_errorgroup", _("issues: errors of one kind, with the newest message"), FORGET, True, kept=_("until resolved or inactive, and all events are deleted")),
    Holding("tools_app_errorhour", _("number of errors by hour"), RETENTION),
    Holding("tools_app_errornote", _("notes of operators on issues"), RETENTION, True, kept=_("as long as the issue")),
    Holding("tools_app_approval", _("requests for approval, with arguments and decision"), FORGET, True, ENCRYPTED),
    Holding("tools_app_standingapproval", _("standing approvals, with the arguments that they cover"), FORGET, True, ENCRYPTED),
    Holding("tools_app_idempotencykey", _("replies to calls with an Idempotency-Key"), FORGET, True, ENCRYPTED, _("24 hours")),
    Holding("tools_app_storedanswer", _("large answers that are read by pages"), FORGET, True, ENCRYPTED, _("an hour, with an Idempotency-Key 24")),
    Holding("tools_app_alert", _("alerts: event, tool, source, caller, time"), FORGET, True),
    Holding("tools_app_alertdelivery", _("messages of alerts: state, attempts, last error"), RETENTION),
    Holding("tools_app_auditentry", _("audit trail: who changed what, with address and user agent"), FORGET, True),
    Holding("tools_app_auditseal", _("digests of audit entries, also of those that are deleted"), ITSELF),
    Holding("tools_app_auditcheckpoint", _("seals of the audit trail"), ITSELF),
    Holding("tools_app_auditkey", _("keys that seal the audit trail"), ITSELF, False, ENCRYPTED),
    # Tools and sources
    Holding("tools_app_toolrecord", _("tools and the decisions about them"), OPERATOR),
    Holding("tools_app_definition", _("versions of definitions of tools"), RETENTION, kept=_("the current ones as long as the tool, others")),
    Holding("tools_app_tag", _("tags"), OPERATOR),
    Holding("tools_app_tooltag", _("tags of tools"), OPERATOR),
    Holding("tools_app_toolcheck", _("newest result of `toolhub checktools`"), OPERATOR, kept=_("as long as the tool")),
    Holding("tools_app_source", _("sources: kind, address or command"), WITH_SOURCE),
    Holding("tools_app_sourcestatus", _("what was observed of sources: availability, errors"), WITH_SOURCE),
    Holding("tools_app_sourcedocument", _("OpenAPI documents"), WITH_SOURCE),
    Holding("tools_app_answerfinding", _("answers that deviate from an OpenAPI document, without values"), WITH_SOURCE),
    Holding("tools_app_admission", _("reports of admission tests"), WITH_SOURCE, kept=_("the newest ones of each source")),
    # Access
    Holding("tools_app_apikey", _("API keys: name, owner, scopes, last use"), OPERATOR, True, HASH),
    Holding("tools_app_keytoolset", _("toolsets of API keys"), OPERATOR),
    Holding("tools_app_keyconnection", _("connections of API keys"), OPERATOR),
    Holding("tools_app_toolset", _("toolsets"), OPERATOR),
    Holding("tools_app_alertrule", _("alert rules: receivers, with URL and secret of webhooks"), OPERATOR, True, ENCRYPTED),
    Holding("tools_app_stop", _("kill switches and maintenance, with reason"), OPERATOR, True, kept=_("until resumed")),
    Holding("tools_app_connection", _("accounts at upstreams, with their secrets"), OPERATOR, False, ENCRYPTED),
    Holding("tools_app_upstreamtoken", _("OAuth tokens for upstreams"), FORGET, True, ENCRYPTED, _("until signed out")),
    Holding("tools_app_signin", _("sign-ins at upstreams that have begun"), ITSELF, True, ENCRYPTED, _("10 minutes")),
    Holding("auth_user", _("users of the admin: name, e-mail address, last sign-in"), OPERATOR, True, _("password: only a hash")),
    Holding("tools_app_passwordlink", _("invitations and reset links of users"), RETENTION, True, HASH, _("until used, replaced or expired")),
    Holding("tools_app_browsersession", _("sessions in the admin: address, browser, last use"), FORGET, True, kept=_("until the session has expired")),
    Holding("auth_group", _("groups of users"), OPERATOR),
    Holding("auth_permission", _("permissions"), ITSELF),
    Holding("auth_group_permissions", _("permissions of groups"), OPERATOR),
    Holding("auth_user_groups", _("groups of users, by user"), OPERATOR, True),
    Holding("auth_user_user_permissions", _("permissions of users"), OPERATOR, True),
    Holding("django_session", _("sessions in the admin"), ITSELF, True, _("signed"), _("until signed out; expired ones are not used")),
    Holding("axes_accessattempt", _("failed sign-ins: user name, address, user agent"), ITSELF, True, kept=_("until the next successful sign-in or the end of the lock")),
    Holding("axes_accessattemptexpiration", _("ends of locks after failed sign-ins"), ITSELF, True, kept=_("until the next successful sign-in or the end of the lock")),
    Holding("axes_accessfailurelog", _("not used by this hub"), ITSELF),
    Holding("axes_accesslog", _("not used by this hub"), ITSELF),
    Holding("socialaccount_socialaccount", _("people of the sign-in service: its address, their `sub` there, last sign-in"), _("deletion of the user"), True),
    Holding("socialaccount_socialapp", _("not used by this hub"), ITSELF),
    Holding("socialaccount_socialtoken", _("not used by this hub"), ITSELF),
    Holding("mfa_authenticator", _("second factors of local users: secret, recovery codes, public keys and names of passkeys"), _("the user, administrators"), True, ENCRYPTED),
    Holding("account_emailaddress", _("not used by this hub"), ITSELF),
    Holding("account_emailconfirmation", _("not used by this hub"), ITSELF),
    Holding("django_admin_log", _("not used by this hub"), ITSELF),
    Holding("tools_app_managedrecord", _("what configuration files say about the records that they manage, without secrets"), OPERATOR, True, kept=_("as long as a file manages the record")),
    # The hub itself
    Holding("tools_app_process", _("running processes and their heartbeats"), ITSELF, kept=_("while they run")),
    Holding("tools_app_agent", _("connected agents: client, caller"), ITSELF, True, kept=_("while they are connected")),
    Holding("tools_app_chore", _("times of the last runs of background tasks"), ITSELF),
    Holding("tools_app_revision", _("counters of changes"), ITSELF),
    Holding("tools_app_disksample", _("sizes and free space, by day"), RETENTION, kept=_("60 days")),
    Holding("tools_app_callsum", _("sums of calls of an earlier release; not used"), ITSELF),
    Holding("django_content_type", _("names of tables"), ITSELF),
    Holding("django_migrations", _("which migrations were applied"), ITSELF),
)  # fmt: skip

# Patterns of paths in the home. The first that matches counts.
FILES: Final = (
    Holding("toolhub.sqlite3*", _("the database, with all tables above"), OWNER, True, _("as each table")),
    Holding("secret_key", _("key that signs sessions and hashes API keys"), OWNER),
    Holding("encryption_key", _("key that encrypts secrets in the database and in backups"), OWNER),
    Holding(".lock", _("lock of the setup; empty"), OWNER),
    Holding("first-login.txt", _("first password and API key"), OWNER, True, kept=_("until you delete it")),
    Holding("backups/*.backup", _("backups"), _("the hub itself (scheduled ones), the owner of the machine (others)"), True, _("as each table; keys encrypted with TOOLHUB_BACKUP_PASSPHRASE"), _("the newest TOOLHUB_BACKUP_KEEP; others until deleted")),
    Holding("backups/toolhub-*.sqlite3", _("copies of the database before an update"), ITSELF, True, _("as each table"), _("the last 5")),
    Holding("backups/replaced-*.sqlite3", _("databases that a restore replaced"), OWNER, True, _("as each table")),
    Holding("children-*/*", _("sockets, locks and error output of programs of sources"), ITSELF, kept=_("while they run")),
    Holding("backups/.*", _("drafts of files that are being written"), ITSELF, True, _("as the file"), _("while they are written")),
    Holding(".*", _("drafts of files that are being written"), ITSELF, True, _("as the file"), _("while they are written")),
)  # fmt: skip
# Files and directories that settings name.
ELSEWHERE: Final = (
    Holding("DATABASE_URL", _("the database, with all tables above"), OWNER, True, _("as each table")),
    Holding("TOOLHUB_BACKUP_DIR", _("scheduled backups"), ITSELF, True, _("as each table; keys encrypted with TOOLHUB_BACKUP_PASSPHRASE"), _("the newest TOOLHUB_BACKUP_KEEP")),
    Holding("TOOLHUB_AUDIT_DIR", _("exports of the audit trail"), OWNER, True),
    Holding("TOOLHUB_LOG_FILE", _("log lines: callers, tools, errors without arguments"), OWNER, True, kept=_("until you rotate it")),
    Holding("TOOLHUB_TOOLS_DIR", _("tools that you wrote"), OWNER),
)  # fmt: skip


def holdings() -> Iterator[HoldingInForce]:
    """All tables, then all files. Bounded: large tables are not counted, nor measured."""
    figures = _figures()
    for holding in TABLES:
        if holding.name in figures:
            rows, size = figures[holding.name]
            yield HoldingInForce(holding, holding.name, rows, size, _settings_of(holding.name))
    home = conf.home()
    if home is not None:
        for holding, paths in files(home).items():
            place = disk.Place("", tuple(paths))
            yield HoldingInForce(holding, str(home / holding.name), len(paths), place.size())
    for holding in ELSEWHERE:
        if named := tuple(_elsewhere(holding.name, home)):
            yield HoldingInForce(holding, str(named[0]), None, disk.Place("", named).size())


def files(home: Path) -> dict[Holding, list[Path]]:
    """The files in the home by kind. Those of none are in no list."""
    found: dict[Holding, list[Path]] = {holding: [] for holding in FILES}
    for holding in FILES:
        taken = {path for paths in found.values() for path in paths}
        found[holding] = [path for path in sorted(home.glob(holding.name))[: disk.MOST_FILES] if path not in taken]
    return {holding: paths for holding, paths in found.items() if paths}


def _elsewhere(name: str, home: Path | None) -> Iterator[Path]:
    """The paths that a setting names; none if it names none."""
    match name:
        case "DATABASE_URL":
            is_elsewhere = connection.vendor == "sqlite" and disk.database_files()[0].parent != home
            yield from disk.database_files() if is_elsewhere else ()
        case "TOOLHUB_LOG_FILE":
            yield from (place.paths[0] for place in disk.places() if place.name == "log")
        case _:
            if path := conf.value(name):
                yield Path(path)


def _settings_of(table: str) -> tuple[tuple[str, int], ...]:
    # That for arguments and answers is in the words of the table.
    rules = [rule for rule in RULES if rule.model._meta.db_table == table]
    names = dict.fromkeys(name for rule in rules for name in rule.settings)
    return tuple((name, conf.value(name)) for name in names)


def _figures() -> dict[str, tuple[int | None, int | None]]:
    """Rows and bytes of each table."""
    if connection.vendor != "postgresql":
        sizes = _sizes_of_sqlite()
        return {name: (rows, sizes.get(name)) for name, rows in _counted(tables()).items()}
    with connection.cursor() as cursor:
        cursor.execute(_OF_POSTGRES)
        found = cursor.fetchall()
    # -1: never analysed. Such a table is small.
    counted = _counted([name for name, estimate, _size in found if estimate < 0])
    return {name: (counted.get(name, int(estimate)), size) for name, estimate, size in found}


def tables() -> list[str]:
    """Without those of which SQLite makes an index."""
    return [name for name in connection.introspection.table_names() if not name.startswith(text_index.INDEX)]


def _counted(tables: Sequence[str]) -> dict[str, int]:
    """In one statement, however many there are."""
    if not tables:
        return {}
    names = map(connection.ops.quote_name, tables)
    numbers = [f"(SELECT count(*) FROM (SELECT 1 FROM {name} LIMIT {MOST_COUNTED + 1}) AS counted)" for name in names]  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(numbers)}")
        return dict(zip(tables, cursor.fetchone(), strict=True))


def _sizes_of_sqlite() -> dict[str, int]:
    """With the indexes of each table. Empty if the file is large, or SQLite was built without `dbstat`."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pragma_module_list WHERE name = 'dbstat'")
        if cursor.fetchone() is None or disk.Place("", disk.database_files()[:1]).size() > MOST_MEASURED:
            return {}
        cursor.execute("SELECT tbl_name, sum(pgsize) FROM dbstat JOIN sqlite_master USING (name) GROUP BY tbl_name")
        sizes: dict[str, int] = dict(cursor.fetchall())
    # The index of a table, in tables of its own.
    of_index = [name for name in sizes if name.startswith(text_index.INDEX)]
    sizes[text_index.TEXTS] = sizes.get(text_index.TEXTS, 0) + sum(sizes.pop(name) for name in of_index)
    return sizes


_OF_POSTGRES: Final = (
    "SELECT relname, reltuples, pg_total_relation_size(oid) FROM pg_class "
    "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
)
