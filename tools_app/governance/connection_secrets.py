"""Encrypts what operators enter as the secret of a connection. No error repeats a value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.views.decorators.debug import sensitive_variables

from tools_app.base import references, secrets
from tools_app.catalog import accounts, connections, forms
from tools_app.models import Connection, Source
from tools_app.sdk.accounts import MOST_SECRET, MOST_URL, ConnectionKind, is_sendable
from tools_app.sdk.errors import ConfigurationError, Problem, ValidationError, shortened

Form = Connection.Form
# Text, or the values of a form by name; None removes one.
Secret = str | Mapping[str, str | None]


@sensitive_variables("secret")
def seal_text(connection: Connection, secret: Secret, url_before: str) -> str:
    """The secret of a pack. Returns the note for the audit trail; empty if nothing is new.

    Raises:
        ValidationError
    """
    new = connection._state.adding
    if secret:
        if not isinstance(secret, str):
            raise wrong("secret", "The secret of a pack must be a string")
        if not is_sendable(secret):
            raise wrong("secret", f"The secret must be 1 to {MOST_SECRET:,} printable ASCII characters")
        connection.sealed = secrets.encrypted(secret.encode())
        return "set" if new else "changed"
    if new:
        raise wrong("secret", "A connection needs a secret")
    if accounts.origin_of(connection.url) != accounts.origin_of(url_before):
        raise wrong("secret", "Give the secret again: it was set for another address")
    return ""


@sensitive_variables("secret", "values", "kept")
def seal_values(connection: Connection, source: Source | None, secret: Secret, before: Mapping[str, Any]) -> str:
    """The values of a connection with a form, and the address that they are for. Returns the note as well.

    Raises:
        ValidationError
    """
    form = _form(connection, source, before, is_secret_new=bool(secret))
    if source is None:
        return ""
    if not secret:
        is_sealed = bool(connection.sealed) and not connection._state.adding and connection.form == before["form"]
        if form is not Form.OAUTH or is_sealed:
            return ""
        # It needs no values: a person signs in.
        secret = {}
    if isinstance(secret, str):
        if form is not Form.BEARER:
            raise wrong("secret", "The secret of this form must be an object of names and their values")
        secret = {forms.TOKEN: secret}
    kept = _kept(connection, source, before)
    missing = [name for name in before["names"] if name not in secret and name not in kept]
    if missing and form == before["form"]:
        raise wrong("secret", f"Give every value again, also that of {', '.join(missing)}; or null to remove it")
    values = {name: value for name, value in {**kept, **secret}.items() if value is not None}
    if (wrong_name := forms.fault_of_names(form, values)) is not None:
        name, fault = wrong_name
        raise wrong("secret", f"{shortened(name)}: {fault}" if name else fault)
    # Only the new ones: what is stored may be from before a stricter rule.
    for name in secret:
        if name in values and (fault := _fault_of_value(form, name, values[name])):
            raise wrong("secret", fault)
    connection.url = source.location[:MOST_URL]
    connection.names = list(forms.FIXED.get(form, ()) or sorted(values))
    connection.references = references.found_in(values.values())
    connection.sealed = secrets.encrypted(json.dumps(values).encode())
    return f"set: {', '.join(sorted(secret)) or 'nothing'}"


def _form(connection: Connection, source: Source | None, before: Mapping[str, Any], *, is_secret_new: bool) -> Form:
    """The form, if this connection can have it.

    Raises:
        ValidationError
    """
    form_before = "" if connection._state.adding else before["form"]
    if source is None:
        if is_secret_new or connection.form != form_before:
            raise wrong("secret", f"There is no source {shortened(connection.pack)} any more")
    elif connection.form not in forms.forms_of(source.kind):
        names = ", ".join(forms.forms_of(source.kind))
        raise wrong("form", f"A connection of a source of the type {source.kind} has one of these forms: {names}")
    needs_secret = connection.form != Form.OAUTH
    if needs_secret and not is_secret_new and connection._state.adding:
        raise wrong("secret", "A connection needs a secret")
    if needs_secret and not is_secret_new and connection.form != form_before:
        raise wrong("secret", "Give the secret again: it was set for another form")
    return Form(connection.form)


def _kept(connection: Connection, source: Source, before: Mapping[str, Any]) -> dict[str, str]:
    """The stored values that a change keeps: none that were set for another address or form."""
    is_bound = accounts.origin_of(source.location) == accounts.origin_of(before["url"])
    if connection._state.adding or not connection.sealed or not is_bound or connection.form != before["form"]:
        return {}
    try:
        return connections.values_of(accounts.of_row(connection, ConnectionKind.outside(connection.pack)))
    except ConfigurationError:
        return {}


def _fault_of_value(form: Form, name: str, value: str) -> str:
    """Why a value, as it was entered, cannot be used. Its references are checked when they are resolved."""
    if len(value) > MOST_SECRET:
        return f"{shortened(name)} has more than {MOST_SECRET:,} characters"
    try:
        references.found_in([value])
    except ValueError as error:
        return f"{shortened(name)}: {error}"
    return forms.fault_of_value(form, name, references.without(value))


def wrong(part: str, message: str) -> ValidationError:
    return ValidationError(problems=[Problem(f"/{part}", message)])
