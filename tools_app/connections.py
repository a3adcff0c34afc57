"""Which accounts at upstreams there are: what the environment says, and what operators have set up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from tools_app import conf, secrets, sources
from tools_app.accounts import Account, ConnectionKind, OptionValue, is_sendable
from tools_app.errors import ConfigurationError, NotFoundError, shortened
from tools_app.models import Connection
from tools_app.models.tools import MAX_TIMEOUT_MS
from tools_app.reach import ENVIRONMENT
from tools_app.registry import Registry
from tools_app.tool import NAME

if TYPE_CHECKING:
    from tools_app.http import ApiClient

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
    known = kinds(sources.registry())
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
    """The account that the hub was started with; None where its address or its secret is missing."""
    url, secret = conf.own(kind.url_variable), conf.own(kind.secret_variable)
    if not url or not secret:
        return None
    allow_http = conf.is_on(kind.allow_http_variable)
    base, fault = _base(kind, url, allow_http=allow_http)
    if fault:
        fault = f"{kind.url_variable}: {fault}"
    elif not is_sendable(secret):
        fault = f"{kind.secret_variable} holds characters that no header can carry"
    options, unreadable = _options_of_environment(kind)
    return Account(
        name=ENVIRONMENT,
        pack=pack,
        kind=kind,
        base=base,
        secret=secret,
        read_only=conf.is_on(kind.read_only_variable),
        allow_http=allow_http,
        options=options,
        fault=fault or unreadable,
    )


def _options_of_environment(kind: ConnectionKind) -> tuple[tuple[tuple[str, OptionValue], ...], str]:
    """Every option, and what is wrong with the first that cannot be read."""
    decided: dict[str, OptionValue] = {}
    fault = ""
    for option in kind.options:
        variable = kind.option_variable(option)
        if text := conf.own(variable):
            try:
                decided[option.name] = option.read(text)
            except ValueError as error:
                fault = fault or f"{variable}: {error}"
    return kind.settled(decided), fault


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
