"""The connections behind accounts: which one is meant, what is wrong with it, and its credentials.

Those of sources outside (their kind is `optional`) have a form, and are bound to the address of their source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from tools_app.base import conf, references, secrets
from tools_app.catalog import forms
from tools_app.catalog.accounts import Accounts, Places, Variables, from_environment, of_row
from tools_app.models import Connection, Stop
from tools_app.sdk import variables
from tools_app.sdk.accounts import Account, ConnectionKind, Credentials
from tools_app.sdk.errors import ConfigurationError, NotFoundError, shortened
from tools_app.sdk.names import NAME
from tools_app.sdk.outside import Origin
from tools_app.sdk.reach import ENVIRONMENT
from tools_app.sdk.variables import UnreadableError

_Value = TypeVar("_Value")

Form = Connection.Form
_SET_AGAIN: Final = "An administrator of this hub should set its secret again."


def all_of(kinds: Mapping[str, ConnectionKind]) -> list[Account]:
    """Every enabled account of every pack. Sources outside are tested by describing them."""
    accounts = Accounts()
    packs = [(pack, kind) for pack, kind in sorted(kinds.items()) if not kind.optional]
    available = [account for pack, kind in packs for account in accounts.of(pack, kind)]
    return [account for account in available if account.enabled]


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


def unreadable(kinds: Mapping[str, ConnectionKind], required: Iterable[str]) -> list[str]:
    """The invalid variables of packs, each with its name and what it accepts."""
    faults = [str(fault) for kind in _with_variables(kinds) for fault in Variables(kind).faults]
    for name in sorted(required):
        try:
            conf.own(name, variables.LINE, "")
        except UnreadableError as error:
            faults.append(str(error))
    return list(dict.fromkeys(faults))


def _with_variables(kinds: Mapping[str, ConnectionKind]) -> list[ConnectionKind]:
    return [kind for _, kind in sorted(kinds.items()) if not kind.optional]


def fault(connection: Connection, kind: ConnectionKind | None, known_places: Places | None = None) -> str:
    """Why a connection cannot be used for any call; empty if it can."""
    if kind is None:
        return f"its pack {connection.pack} is not loaded"
    if kind.optional:
        return _fault_outside(of_row(connection, kind, known_places))
    if secrets.decrypted(bytes(connection.sealed)) is None:
        return "its secret cannot be decrypted: set it again, or add its key to TOOLHUB_ENCRYPTION_KEY"
    return of_row(connection, kind).fault


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
