"""All current accounts at upstreams: from the environment, and those that operators created, without their secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from tools_app.base import conf
from tools_app.base.references import References
from tools_app.models import Connection, Source
from tools_app.models.tools import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS
from tools_app.sdk import variables
from tools_app.sdk.accounts import Account, ConnectionKind, is_sendable
from tools_app.sdk.errors import ConfigurationError
from tools_app.sdk.reach import ENVIRONMENT
from tools_app.sdk.variables import UnreadableError

_Value = TypeVar("_Value")
TIME_LIMIT: Final = variables.whole_number(MIN_TIMEOUT_MS, MAX_TIMEOUT_MS)
# Address (nothing, if it is a child process) and epoch of sources outside, by name.
Places = Mapping[str, tuple[str, int]]

_COLUMNS: Final = (
    *("name", "pack", "form", "names", "references", "url", "sealed", "read_only", "allow_http", "timeout_ms"),
    *("enabled", "options"),
)


class Accounts:
    """All current accounts, by pack. Reads only what is needed for packs with connections, and decrypts no secret."""

    def __init__(self) -> None:
        self._stored: dict[str, list[dict[str, Any]]] | None = None
        self._known: dict[str, tuple[Account, ...]] = {}
        self._places: Places | None = None

    def of(self, pack: str, kind: ConnectionKind) -> tuple[Account, ...]:
        """The account of the environment first, then the others by name."""
        if pack not in self._known:
            from_env = from_environment(pack, kind)
            rows = [
                self._account(row, kind) for row in self._rows().get(pack, ()) if bool(row["form"]) == kind.optional
            ]
            self._known[pack] = (from_env, *rows) if from_env is not None else tuple(rows)
        return self._known[pack]

    def _account(self, row: dict[str, Any], kind: ConnectionKind) -> Account:
        if not kind.optional:
            return _from_row(row, kind)
        if self._places is None:
            self._places = places()
        return _outside(row, kind, self._places.get(row["pack"]))

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        if self._stored is None:
            self._stored = {}
            for row in Connection.objects.order_by("name").values(*_COLUMNS):
                self._stored.setdefault(row["pack"], []).append(row)
        return self._stored


def places() -> Places:
    """The sources outside, by name."""
    rows = Source.objects.filter(kind__in=Source.OUTSIDE, removed_at=None)
    return {name: (location, epoch) for name, location, epoch in rows.values_list("name", "location", "epoch")}


def of_row(connection: Connection, kind: ConnectionKind, known_places: Places | None = None) -> Account:
    """The account of a stored connection, as calls would use it. `known_places`: for many of them."""
    row = {column: getattr(connection, column) for column in _COLUMNS}
    if not kind.optional:
        return _from_row(row, kind)
    return _outside(row, kind, (places() if known_places is None else known_places).get(connection.pack))


def from_environment(pack: str, kind: ConnectionKind) -> Account | None:
    """The account of the environment; None if its address or secret is not set.

    If any of its variables is invalid, the account cannot be used: a typo must not remove a restriction.
    """
    return None if kind.optional else Variables(kind).account(pack)


def missing(kind: ConnectionKind) -> list[str]:
    """The variables that are not set for the account of the environment."""
    return [] if kind.optional else conf.unset((kind.url_variable, kind.secret_variable))


def identifier(account: Account) -> str:
    """The unique name of an account: every pack can have one from the environment."""
    return f"{ENVIRONMENT}:{account.pack}" if account.name == ENVIRONMENT else account.name


class Variables:
    """The environment variables of a kind of connection, and which of them are invalid."""

    def __init__(self, kind: ConnectionKind) -> None:
        self.kind = kind
        self.faults: list[UnreadableError] = []
        self.url = self._read(kind.url_variable, variables.LINE, "")
        self.secret = self._read(kind.secret_variable, variables.LINE, "")
        self.allow_http = self._read(kind.allow_http_variable, variables.FLAG, False)
        self.read_only = self._read(kind.read_only_variable, variables.FLAG, False)
        self.timeout_ms = self._read(kind.timeout_variable, _optional_limit, None)
        options = {
            option.name: self._read(kind.option_variable(option), option.read, option.default)
            for option in kind.options
        }
        self.options = kind.settled(options)
        self.base, fault = _base(kind, self.url, allow_http=self.allow_http) if self.url else ("", "")
        if fault:
            self.faults.append(UnreadableError(f"{kind.url_variable}: {fault}"))
        if self.secret and not is_sendable(self.secret):
            self.faults.append(UnreadableError(f"{kind.secret_variable} contains characters not allowed in a header"))

    def account(self, pack: str) -> Account | None:
        if not self.url or not self.secret:
            return None
        return Account(
            name=ENVIRONMENT,
            pack=pack,
            kind=self.kind,
            base=self.base,
            secret=self.secret,
            read_only=self.read_only,
            allow_http=self.allow_http,
            timeout_ms=self.timeout_ms,
            options=self.options,
            defect="; ".join(fault.brief for fault in self.faults),
        )

    def _read(self, name: str, read: Callable[[str], _Value], default: _Value) -> _Value:
        try:
            return conf.own(name, read, default)
        except UnreadableError as error:
            self.faults.append(error)
            return default


def _optional_limit(text: str) -> int | None:
    return TIME_LIMIT(text)


def _outside(row: dict[str, Any], kind: ConnectionKind, place: tuple[str, int] | None) -> Account:
    """The account at a source outside. `place`: where the source is now; None: there is no such source."""
    sealed, defect = bytes(row["sealed"]), ""
    location, epoch = place or ("", 0)
    if place is None:
        defect = f"there is no source {row['pack']}"
    elif not sealed:
        is_oauth = row["form"] in Connection.OAUTH
        again = "save it again, and sign in" if is_oauth else "set it again"
        defect = f"its source has changed, and its secret was deleted: {again}"
    elif origin_of(location) != origin_of(row["url"]):
        # A change of a source that does not delete the secrets must not send them elsewhere.
        defect = "its secret was set for another address of its source: set it again"
    return Account(
        name=row["name"],
        pack=row["pack"],
        kind=kind,
        base=location,
        epoch=epoch,
        sealed=sealed,
        read_only=row["read_only"],
        enabled=row["enabled"],
        form=row["form"],
        names=tuple(row["names"]),
        options=tuple(sorted(row["options"].items())),
        references=References(tuple(row["references"])) if row["references"] else None,
        defect=defect,
    )


def origin_of(url: str) -> tuple[str, str]:
    """Where a secret that was set for this address is sent to."""
    try:
        parts = urlsplit(url.strip().lower())
    except ValueError:
        return "", url
    return parts.scheme, parts.netloc


def _from_row(row: dict[str, Any], kind: ConnectionKind) -> Account:
    base, fault = _base(kind, row["url"], allow_http=row["allow_http"])
    return Account(
        name=row["name"],
        pack=row["pack"],
        kind=kind,
        base=base,
        sealed=bytes(row["sealed"]),
        read_only=row["read_only"],
        allow_http=row["allow_http"],
        timeout_ms=row["timeout_ms"],
        enabled=row["enabled"],
        options=kind.settled(row["options"]),
        defect=fault,
    )


def base(kind: ConnectionKind, url: str, *, allow_http: bool) -> str:
    """The base URL of an upstream's API, from the address that an operator entered.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    # Imported late: few packs need it, and process start should stay fast.
    from tools_app.http import addresses, public

    address = addresses.base(url, below=kind.path, allow_http=allow_http)
    if public.names_the_machine(address.host) and not may_be_link_local(str(address)):
        raise ConfigurationError(
            "The base URL points to the machine's own network, where clouds serve credentials",
            next_step="Use the upstream's own address. If this is intended, an operator adds the host to "
            "TOOLHUB_LINK_LOCAL_HOSTS.",
        )
    return str(address)


def may_be_link_local(base: str) -> bool:
    return (urlsplit(base).hostname or "") in conf.value("TOOLHUB_LINK_LOCAL_HOSTS")


def _base(kind: ConnectionKind, url: str, *, allow_http: bool) -> tuple[str, str]:
    try:
        return base(kind, url, allow_http=allow_http), ""
    except ConfigurationError as error:
        return "", error.message
