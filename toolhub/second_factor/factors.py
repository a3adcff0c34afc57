"""Second factors: codes of apps, recovery codes, and what `passkeys` shares with them. allauth has the table.

Verification is here: allauth remembers used codes and wrong attempts in a cache, which each process has of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth as totp
from django.contrib.auth import get_user_model
from django.db import IntegrityError, transaction
from django.utils import timezone

from tools_app import governance
from tools_app.access import actions
from tools_app.base import secrets
from tools_app.governance import roles
from tools_app.governance.actors import Actor, changing
from tools_app.governance.connections import SecretRotation
from tools_app.sdk.errors import ConflictError, NotFoundError, RateLimitError, ValidationError

TOTP, PASSKEY, RECOVERY = Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN, Authenticator.Type.RECOVERY_CODES
# What a person sets up; recovery codes come with it.
KINDS: Final = (TOTP, PASSKEY)
# Codes before and after the current one count as well: clocks of phones differ.
TOLERANCE: Final = 1
# Wrong codes and passkeys within WRONG_SECONDS, from all addresses. Only those who know the password can cause them.
MOST_WRONG: Final = 20
WRONG_SECONDS: Final = 900
# The secrets in the data of a row.
_SECRETS: Final = ("secret", "seed")


def is_on(user: Any) -> bool:
    return bool(Authenticator.objects.filter(user=user, type__in=KINDS).exists())


def has_app(user: Any) -> bool:
    return bool(Authenticator.objects.filter(user=user, type=TOTP).exists())


def of(user: Any) -> list[Authenticator]:
    """The second factors of a user, without the recovery codes."""
    return list(Authenticator.objects.filter(user=user, type__in=KINDS).order_by("pk"))


def new_secret() -> str:
    return str(totp.generate_totp_secret())


def picture(user: Any, secret: str) -> str:
    """The QR code for an authenticator app, as SVG."""
    adapter = get_adapter()
    return str(adapter.build_totp_svg(adapter.build_totp_url(user, secret)))


def turn_on(user: Any, secret: str, code: str) -> list[str]:
    """Set up an authenticator app. Returns the recovery codes if it is the first second factor of this user.

    Raises:
        ValidationError: the code does not fit: the app has another secret, or another time.
        ConflictError: there is an app already.
    """
    counter = _fitting(secret, code)
    if counter is None:
        raise ValidationError(
            "The code does not fit",
            next_step="Scan the picture again, check the clock of your phone, and enter the code that it shows now.",
        )
    try:
        with changing(actions.USER_FACTOR_ADD, of_oneself(user)) as change:
            lock(user)
            row = totp.TOTP.activate(user, secret).instance
            row.data["counter"] = counter
            row.save()
            codes = first_codes(user)
            change.note(of_oneself(user).name, {"factor": [None, "totp"]})
    except IntegrityError:
        raise ConflictError("You have an authenticator app already") from None
    return codes


def renew_codes(user: Any) -> list[str]:
    """New recovery codes; the former ones are void.

    Raises:
        NotFoundError: there is no second factor.
    """
    with changing(actions.USER_FACTOR_CODES, of_oneself(user)) as change:
        if not is_on(user):
            raise NotFoundError("You have no second factor")
        codes = _new_codes(user)
        change.note(of_oneself(user).name, {"recovery codes": [None, len(codes)]})
    return codes


def remove(user: Any, number: int) -> None:
    """Remove one of a user's own. With the last one the recovery codes are removed.

    Raises:
        NotFoundError: the user has none with this number.
    """
    with changing(actions.USER_FACTOR_REMOVE, of_oneself(user)) as change:
        lock(user)
        row = Authenticator.objects.filter(user=user, pk=number, type__in=KINDS).first()
        if row is None:
            raise NotFoundError("You have no such second factor", next_step="Load the page again.")
        change.note(of_oneself(user).name, {"factor": [described(row), None]})
        row.delete()
        if not is_on(user):
            Authenticator.objects.filter(user=user).delete()


def turn_off(user: Any, *, actor: Actor | None = None, reason: str = "") -> None:
    """Remove all second factors. `actor`: an administrator, for a person who has lost it; None: the user.

    Raises:
        NotFoundError: there is none.
        AuthorizationError: the actor manages no users, or none with the rights of this one.
    """
    by = actor or of_oneself(user)
    action = roles.on_users(actions.USER_FACTOR_RESET) if actor is not None else actions.USER_FACTOR_REMOVE
    with changing(action, by, reason) as change:
        if user.is_superuser:
            by.require(actions.SUPERUSER_CHANGE)
        lock(user)
        kinds = ", ".join(described(row) for row in of(user))
        Authenticator.objects.filter(user=user).delete()
        if not kinds:
            raise NotFoundError(f"{user.get_username()} has no second factor")
        change.note(of_oneself(user).name, {"factor": [kinds, None]})


def codes_left(user: Any) -> int:
    row = Authenticator.objects.filter(user=user, type=RECOVERY).first()
    return len(RecoveryCodes(row).get_unused_codes()) if row is not None else 0


def people() -> list[Any]:
    """The users with a second factor."""
    users = get_user_model()._default_manager.filter(authenticator__type__in=KINDS).distinct()
    return list(users.order_by("username")[:200])


def verify(user: Any, code: str) -> str:
    """What the code is: `totp` or `recovery_codes`; empty if it does not fit. Each counts once, in all processes.

    Raises:
        RateLimitError: too many wrong codes.
        ConfigurationError: the hub does not have the key of the secret.
    """
    return attempt(user, lambda rows: _used(rows, code))


def attempt(user: Any, use: Callable[[list[Authenticator]], Authenticator | None]) -> str:
    """Let `use` use up one of the locked rows. Returns its type; empty, and counted as wrong, if there is none.

    Raises:
        RateLimitError: too many were wrong.
    """
    with transaction.atomic():
        rows = list(Authenticator.objects.select_for_update().filter(user=user).order_by("pk"))
        if not any(row.type in KINDS for row in rows):
            return ""
        wrong = _recent(rows)
        _check_attempts(wrong)
        used = use(rows)
        for row in rows:
            row.data.pop("wrong", None)
        if used is None:
            rows[0].data["wrong"] = [*wrong, time.time()]
        else:
            used.last_used_at = timezone.now()
        for row in rows:
            row.save(update_fields=["data", "last_used_at"])
    return str(used.type) if used is not None else ""


def rotate(rotation: SecretRotation, **_: Any) -> None:
    """Encrypt the stored secrets with the first key."""
    for pk in list(Authenticator.objects.order_by("pk").values_list("pk", flat=True)):
        with transaction.atomic():
            row = Authenticator.objects.select_for_update().filter(pk=pk).first()
            for name in _SECRETS if row is not None else ():
                if name in row.data:
                    _rotate(row, name, rotation)


def _rotate(row: Authenticator, name: str, rotation: SecretRotation) -> None:
    former = row.data[name].encode()
    fresh = secrets.rotated(former)
    if fresh is None:
        rotation.unreadable.append(f"second factor of {row.user.get_username()}")
    elif fresh == former:
        rotation.current += 1
    else:
        row.data[name] = fresh.decode()
        row.save(update_fields=["data"])
        rotation.rotated += 1


def _used(rows: list[Authenticator], code: str) -> Authenticator | None:
    """Use up a code."""
    by_type = {row.type: row for row in rows}
    if (row := by_type.get(TOTP)) is not None:
        counter = _fitting(get_adapter().decrypt(row.data["secret"]), code)
        if counter is not None:
            # A code that was seen on its way is not accepted again, nor an earlier one.
            if counter <= row.data.get("counter", 0):
                return None
            row.data["counter"] = counter
            return row
    if (row := by_type.get(RECOVERY)) is None:
        return None
    codes = RecoveryCodes(row)
    if not codes.validate_code(code):
        return None
    # allauth has read the row again.
    row.data = codes.instance.data
    return row


def _fitting(secret: str, code: str) -> int | None:
    """The number of the period whose code this is."""
    now = int(time.time()) // 30
    periods: Iterable[int] = range(now - TOLERANCE, now + TOLERANCE + 1)
    fits = (
        number
        for number in periods
        if compare_user_code(actual=code, expected=totp.format_hotp_value(totp.hotp_value(secret, number)))
    )
    return next(fits, None)


def _check_attempts(wrong: list[float]) -> None:
    """Raises: RateLimitError."""
    if len(wrong) >= MOST_WRONG:
        raise RateLimitError("Too many wrong codes", retry_after=wrong[-MOST_WRONG] + WRONG_SECONDS - time.time())


def _recent(rows: Iterable[Authenticator]) -> list[float]:
    since = time.time() - WRONG_SECONDS
    return sorted(moment for row in rows for moment in row.data.get("wrong", []) if moment > since)


def lock(user: Any) -> None:
    """Until the end of the transaction, no other one adds or removes second factors of this user."""
    get_user_model()._default_manager.select_for_update().get(pk=user.pk)


def described(row: Authenticator) -> str:
    """In the audit trail."""
    return f"passkey {row.data['name']}" if row.type == PASSKEY else str(row.type)


def hub_name() -> str:
    """As apps and browsers show it."""
    return str(get_adapter().get_totp_issuer())


def first_codes(user: Any) -> list[str]:
    """Recovery codes for a user who has none."""
    return [] if Authenticator.objects.filter(user=user, type=RECOVERY).exists() else _new_codes(user)


def _new_codes(user: Any) -> list[str]:
    Authenticator.objects.filter(user=user, type=RECOVERY).delete()
    return [str(code) for code in RecoveryCodes.activate(user).get_unused_codes()]


def of_oneself(user: Any) -> Actor:
    """The person, who needs no permission for their own second factor."""
    return governance.trusted(governance.of_user(user).name)
