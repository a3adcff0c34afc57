"""Which accounts at upstreams there are: what the environment says, and what operators have set up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from tools_app import sources
from tools_app.base import conf, secrets
from tools_app.models import Connection
from tools_app.models.tools import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS
from tools_app.sdk import variables
from tools_app.sdk.accounts import Account, ConnectionKind, is_sendable
from tools_app.sdk.errors import ConfigurationError, NotFoundError, shortened
from tools_app.sdk.names import NAME
from tools_app.sdk.reach import ENVIRONMENT
from tools_app.sdk.variables import UnreadableError
from tools_app.sources.registry import Registry

if TYPE_CHECKING:
    from tools_app.http import ApiClient

_Value = TypeVar("_Value")

_COLUMNS: Final = ("name", "pack", "url", "sealed", "read_only", "allow_http", "timeout_ms", "enabled", "options")


class Accounts:
    """All accounts as of now, by pack. Nothing is read for packs that need none, and no secret is opened."""

    def __init__(self) -> None:
        self._stored: dict[str, list[dict[str, Any]]] | None = None
        self._known: dict[str, tuple[Account, ...]] = {}

    def of(self, pack: str, kind: ConnectionKind) -> tuple[Account, ...]:
        """That of the environment first, then the others by name."""
        if pack not in self._known:
            own = from_environment(pack, kind)
            stored = [_stored(row, kind) for row in self._rows().get(pack, ())]
            self._known[pack] = (own, *stored) if own is not None else tuple(stored)
        return self._known[pack]

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        if self._stored is None:
            self._stored = {}
            for row in Connection.objects.order_by("name").values(*_COLUMNS):
                self._stored.setdefault(row["pack"], []).append(row)
        return self._stored


def all_of(registry: Registry) -> list[Account]:
    """Every account that is switched on, of every pack."""
    known = Accounts()
    found = [account for pack, kind in sorted(kinds(registry).items()) for account in known.of(pack, kind)]
    return [account for account in found if account.enabled]


def identifier(account: Account) -> str:
    """A name that tells it from all others: each pack can have a connection from the environment."""
    return f"{ENVIRONMENT}:{account.pack}" if account.name == ENVIRONMENT else account.name


def identified(identifier: str) -> Account:
    """The connection that `identifier` means.

    Raises:
        NotFoundError: there is none.
        ConfigurationError: its pack is not there, which alone knows how to speak to the upstream.
    """
    source, _, pack = identifier.partition(":")
    known = kinds(sources.loaded())
    if source == ENVIRONMENT:
        own = from_environment(pack, known[pack]) if pack in known else None
        if own is None:
            raise NotFoundError(f"There is no connection {shortened(identifier)!r}")
        return own
    stored = Connection.objects.filter(name=identifier).first() if NAME.fullmatch(identifier) else None
    if stored is None:
        raise NotFoundError(f"There is no connection {shortened(identifier)!r}")
    if stored.pack not in known:
        raise ConfigurationError(f"The pack {stored.pack}, to which this connection belongs, is not loaded")
    return of_row(stored, known[stored.pack])


def kinds(registry: Registry) -> dict[str, ConnectionKind]:
    """What the packs of this process need, by the names of those that need anything."""
    found = {}
    for pack in (*registry.resting.values(), *(loaded.tool.pack for loaded in registry)):
        if pack is not None and pack.connection is not None:
            found[pack.name] = pack.connection
    return found


def of_row(connection: Connection, kind: ConnectionKind) -> Account:
    """A connection, as calls would use it."""
    return _stored({column: getattr(connection, column) for column in _COLUMNS}, kind)


def from_environment(pack: str, kind: ConnectionKind) -> Account | None:
    """The account that the hub was started with; None where its address or its secret is missing.

    Where a variable cannot be read, nothing can be sent through it: a slip must not open what it was to close.
    """
    return _Variables(kind).account(pack)


def unreadable(registry: Registry) -> list[str]:
    """What is wrong with the variables of packs, each with its name and what it takes."""
    required = {name for loaded in registry if loaded.tool.pack for name in loaded.tool.pack.requires}
    faults = [str(fault) for _, kind in sorted(kinds(registry).items()) for fault in _Variables(kind).faults]
    for name in sorted(required):
        try:
            conf.own(name)
        except UnreadableError as error:
            faults.append(str(error))
    return list(dict.fromkeys(faults))


class _Variables:
    """What the environment says of a kind of connection, and what of it cannot be read."""

    def __init__(self, kind: ConnectionKind) -> None:
        self.kind = kind
        self.faults: list[UnreadableError] = []
        self.url, self.secret = self._text(kind.url_variable), self._text(kind.secret_variable)
        self.allow_http = self._read(kind.allow_http_variable, variables.flag, False)
        self.read_only = self._read(kind.read_only_variable, variables.flag, False)
        self.timeout_ms = self._read(kind.timeout_variable, _time_limit, None)
        decided = {
            option.name: self._read(kind.option_variable(option), option.read, option.default)
            for option in kind.options
        }
        self.options = kind.settled(decided)
        self.base, fault = _base(kind, self.url, allow_http=self.allow_http) if self.url else ("", "")
        if fault:
            self.faults.append(UnreadableError(f"{kind.url_variable}: {fault}"))
        if self.secret and not is_sendable(self.secret):
            self.faults.append(UnreadableError(f"{kind.secret_variable} holds characters that no header can carry"))

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
            fault="; ".join(fault.brief for fault in self.faults),
        )

    def _text(self, name: str) -> str:
        try:
            return conf.own(name)
        except UnreadableError as error:
            self.faults.append(error)
            return ""

    def _read(self, name: str, read: Callable[[str], _Value], default: _Value) -> _Value:
        text = self._text(name)
        try:
            return read(text) if text else default
        except ValueError as error:
            self.faults.append(UnreadableError.because(name, error, text))
            return default


def _time_limit(text: str) -> int | None:
    return variables.whole_number(text, MIN_TIMEOUT_MS, MAX_TIMEOUT_MS)


def fault(connection: Connection, kind: ConnectionKind | None) -> str:
    """Why nothing can be sent through a connection, whatever it would be; empty when something can."""
    if kind is None:
        return f"its pack {connection.pack} is not loaded"
    if secrets.decrypted(bytes(connection.sealed)) is None:
        return "its secret cannot be read: set it again, or give TOOLHUB_ENCRYPTION_KEY the key back that it is under"
    return of_row(connection, kind).fault


def missing(kind: ConnectionKind) -> list[str]:
    """What the environment lacks of an account."""
    return conf.unset((kind.url_variable, kind.secret_variable))


def secret_of(account: Account) -> str:
    """The secret itself. Only for what sends it.

    Raises:
        ConfigurationError: it is stored under an encryption key that this hub does not have.
    """
    if account.secret:
        return account.secret
    plain = secrets.decrypted(account.sealed)
    if plain is None:
        raise ConfigurationError(
            f"The secret of the connection {account.name} cannot be read",
            next_step="An administrator of this hub should set it again, or give TOOLHUB_ENCRYPTION_KEY the key back "
            "under which it was stored.",
        )
    return plain.decode()


def _stored(row: dict[str, Any], kind: ConnectionKind) -> Account:
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
        fault=fault,
    )


def client(account: Account, *, explained: bool = True) -> ApiClient:
    """What speaks to the upstream for this account, and gives its secret to nobody else.

    Its errors are in the words of the pack, or only in those of HTTP.

    Raises:
        ConfigurationError: the secret cannot be read.
    """
    kind = account.kind if explained else replace(account.kind, explain=None)
    return kind.client(
        account.base,
        secret_of(account),
        name=kind.title if account.name == ENVIRONMENT else f"{kind.title} ({account.name})",
        # Without a limit of its own, the deadline of the call is the one that counts.
        timeout=(account.timeout_ms or MAX_TIMEOUT_MS) / 1000,
        allow_http=account.allow_http,
        read_only=account.read_only,
        link_local=_may_be_link_local(account.base),
    )


def base(kind: ConnectionKind, url: str, *, allow_http: bool) -> str:
    """Where the interface of an upstream begins, of whose address this is what an operator said.

    Raises:
        ConfigurationError: the address cannot be used.
    """
    # What few packs need, the start of a process should not pay for.
    from tools_app.http import addresses, public

    found = addresses.base(url, below=kind.path, allow_http=allow_http)
    if public.names_the_machine(found.host) and not _may_be_link_local(str(found)):
        raise ConfigurationError(
            "The base URL leads to the machine's own network, where clouds keep credentials",
            next_step="Use the upstream's own address. Where this is meant, an operator names the host in "
            "TOOLHUB_LINK_LOCAL_HOSTS.",
        )
    return str(found)


def _may_be_link_local(base: str) -> bool:
    return (urlsplit(base).hostname or "") in conf.value("TOOLHUB_LINK_LOCAL_HOSTS")


def _base(kind: ConnectionKind, url: str, *, allow_http: bool) -> tuple[str, str]:
    try:
        return base(kind, url, allow_http=allow_http), ""
    except ConfigurationError as error:
        return "", error.message
