"""Accounts at upstreams: from the environment, and those that operators created.

Those of sources outside (their kind is `optional`) have a form, and are bound to the address of their source.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from tools_app.base import conf, references, secrets
from tools_app.base.references import References
from tools_app.catalog import forms
from tools_app.models import Connection, Source, Stop
from tools_app.models.tools import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS
from tools_app.sdk import variables
from tools_app.sdk.accounts import Account, ConnectionKind, Credentials, is_sendable
from tools_app.sdk.errors import ConfigurationError, NotFoundError, shortened
from tools_app.sdk.names import NAME
from tools_app.sdk.outside import Origin
from tools_app.sdk.reach import ENVIRONMENT
from tools_app.sdk.variables import UnreadableError

_Value = TypeVar("_Value")
TIME_LIMIT: Final = variables.whole_number(MIN_TIMEOUT_MS, MAX_TIMEOUT_MS)

Form = Connection.Form
# Address (nothing, if it is a child process) and epoch of sources outside, by name.
Places = Mapping[str, tuple[str, int]]

_COLUMNS: Final = (
    *("name", "pack", "form", "names", "references", "url", "sealed", "read_only", "allow_http", "timeout_ms"),
    *("enabled", "options"),
)
_SET_AGAIN: Final = "An administrator of this hub should set its secret again."


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


def all_of(kinds: Mapping[str, ConnectionKind]) -> list[Account]:
    """Every enabled account of every pack. Sources outside are tested by describing them."""
    accounts = Accounts()
    packs = [(pack, kind) for pack, kind in sorted(kinds.items()) if not kind.optional]
    available = [account for pack, kind in packs for account in accounts.of(pack, kind)]
    return [account for account in available if account.enabled]


def identifier(account: Account) -> str:
    """The unique name of an account: every pack can have one from the environment."""
    return f"{ENVIRONMENT}:{account.pack}" if account.name == ENVIRONMENT else account.name


def identified(identifier: str, kinds: Mapping[str, ConnectionKind]) -> Account:
    """The connection with this identifier.

    Raises:
        NotFoundError: there is none.
        ConfigurationError: its pack, which implements the connection, is not loaded.
    """
    source, _, pack = identifier.partition(":")
    if source == ENVIRONMENT:
        from_env = from_environment(pack, kinds[pack]) if pack in kinds else None
        if from_env is None:
            raise NotFoundError(f"There is no connection {shortened(identifier)!r}")
        return from_env
    row = Connection.objects.filter(name=identifier).first() if NAME.fullmatch(identifier) else None
    if row is None:
        raise NotFoundError(f"There is no connection {shortened(identifier)!r}")
    kind = kind_of(row, kinds)
    if kind is None:
        raise ConfigurationError(f"The pack {row.pack}, to which this connection belongs, is not loaded")
    return of_row(row, kind)


def kind_of(connection: Connection, kinds: Mapping[str, ConnectionKind]) -> ConnectionKind | None:
    """The kind of a stored connection; None if its pack, which declares it, is not loaded."""
    return ConnectionKind.outside(connection.pack) if connection.form else kinds.get(connection.pack)


def of_row(connection: Connection, kind: ConnectionKind, known_places: Places | None = None) -> Account:
    """The account of a stored connection, as calls would use it. `known_places`: for many of them."""
    row = {column: getattr(connection, column) for column in _COLUMNS}
    if not kind.optional:
        return _from_row(row, kind)
    return _outside(row, kind, (places() if known_places is None else known_places).get(connection.pack))


def account_of(name: str) -> Account:
    """The account with which a source outside is described: the connection of that name.

    Raises:
        NotFoundError: there is none.
        ConfigurationError: it cannot be used now.
    """
    row = Connection.objects.filter(name=name).exclude(form=Form.PACK).first()
    if row is None:
        raise NotFoundError(f"There is no connection {shortened(name)!r} of a source outside the hub")
    account = of_row(row, ConnectionKind.outside(row.pack))
    stop = Stop.objects.filter(kind=Stop.Kind.CONNECTION, name=name).first()
    if obstacle := (stop.words if stop is not None else "") or account.obstacle_now(writes=False):
        raise ConfigurationError(
            f"{obstacle[0].upper()}{obstacle[1:]}", next_step="Check the connections in the admin."
        )
    return account


def from_environment(pack: str, kind: ConnectionKind) -> Account | None:
    """The account of the environment; None if its address or secret is not set.

    If any of its variables is invalid, the account cannot be used: a typo must not remove a restriction.
    """
    return None if kind.optional else _Variables(kind).account(pack)


def unreadable(kinds: Mapping[str, ConnectionKind], required: Iterable[str]) -> list[str]:
    """The invalid variables of packs, each with its name and what it accepts."""
    faults = [str(fault) for kind in _with_variables(kinds) for fault in _Variables(kind).faults]
    for name in sorted(required):
        try:
            conf.own(name, variables.LINE, "")
        except UnreadableError as error:
            faults.append(str(error))
    return list(dict.fromkeys(faults))


def _with_variables(kinds: Mapping[str, ConnectionKind]) -> list[ConnectionKind]:
    return [kind for _, kind in sorted(kinds.items()) if not kind.optional]


class _Variables:
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


def fault(connection: Connection, kind: ConnectionKind | None, known_places: Places | None = None) -> str:
    """Why a connection cannot be used for any call; empty if it can."""
    if kind is None:
        return f"its pack {connection.pack} is not loaded"
    if kind.optional:
        return _fault_outside(of_row(connection, kind, known_places))
    if secrets.decrypted(bytes(connection.sealed)) is None:
        return "its secret cannot be decrypted: set it again, or add its key to TOOLHUB_ENCRYPTION_KEY"
    return of_row(connection, kind).fault


def missing(kind: ConnectionKind) -> list[str]:
    """The variables that are not set for the account of the environment."""
    return [] if kind.optional else conf.unset((kind.url_variable, kind.secret_variable))


def secret_of(account: Account) -> str:
    """The decrypted secret. Use it only to send it to the upstream.

    Raises:
        ConfigurationError: it was encrypted with a key that this hub does not have.
    """
    if account.secret:
        return account.secret
    plain = secrets.decrypted(account.sealed)
    if plain is None:
        raise ConfigurationError(
            f"The secret of the connection {account.name} cannot be read",
            next_step="An administrator of this hub should set it again, or add the key that encrypted it to "
            "TOOLHUB_ENCRYPTION_KEY.",
        )
    return plain.decode()


def values_of(account: Account) -> dict[str, str]:
    """The decrypted values of a connection with a form, by name. Their references are not resolved.

    Raises:
        ConfigurationError: they cannot be read.
    """
    values: dict[str, str] = json.loads(secret_of(account))
    return values


def credentials_of(account: Account, origin: Origin | None = None) -> Credentials:
    """What the upstream of an account gets, with the current values of its references. Use it only to send it there.

    `origin`: the source as the connection is made to it, which may have been changed since. May read files.

    Raises:
        ConfigurationError: it cannot be used: the message is safe to show.
    """
    if not account.form:
        _check(account, origin)
        return Credentials(headers={account.kind.header: f"{account.kind.prefix}{secret_of(account)}"})
    return forms.credentials(Form(account.form), values_now(account, origin))


def values_now(account: Account, origin: Origin | None = None) -> dict[str, str]:
    """The values of a connection with a form, by name, with the current values of their references. As above.

    Raises:
        ConfigurationError
    """
    _check(account, origin)
    try:
        values = {name: references.resolved(value) for name, value in values_of(account).items()}
    except references.MissingError as error:
        next_step = "An operator should set what is missing, or an administrator another secret."
        raise _unusable(account, str(error), next_step) from None
    for name, value in values.items():
        if fault := forms.fault_of_value(Form(account.form), name, value):
            raise _unusable(account, fault)
    return values


def _check(account: Account, origin: Origin | None) -> None:
    """Raises: ConfigurationError."""
    if account.defect:
        raise _unusable(account, account.defect)
    if origin is not None and (origin.name, origin.epoch) != (account.pack, account.epoch):
        # A connection to the former server must not get the secret for the present one.
        raise _unusable(account, f"{account.pack} has been changed meanwhile", "Try again.")


def _unusable(account: Account, reason: str, next_step: str = _SET_AGAIN) -> ConfigurationError:
    return ConfigurationError(f"The connection {account.name} cannot be used: {reason}", next_step=next_step)


def _fault_outside(account: Account) -> str:
    if fault := account.fault:
        return fault
    try:
        credentials_of(account)
    except ConfigurationError as error:
        return error.message
    return ""


def _outside(row: dict[str, Any], kind: ConnectionKind, place: tuple[str, int] | None) -> Account:
    """The account at a source outside. `place`: where the source is now; None: there is no such source."""
    sealed, defect = bytes(row["sealed"]), ""
    location, epoch = place or ("", 0)
    if place is None:
        defect = f"there is no source {row['pack']}"
    elif not sealed:
        is_oauth = row["form"] in forms.OAUTH
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
