"""Why a sign-in at the provider failed: words for the person, details for the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext_lazy as _

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

AGAIN: Final = _("Sign in again.")
TELL: Final = _("Tell the administrator of this hub. The log of the hub has the details under this reference.")
WAIT: Final = _("Try again in a few minutes. If it still fails, tell the administrator of this hub.")


class SignInError(Exception):
    """`detail` is for the log, and contains no secret."""

    words: StrOrPromise = ""
    next_step: StrOrPromise = TELL
    status = 400
    # Whether the audit trail notes it, as a sign-in that failed.
    is_noted = True
    # Whether too many of these lock the address. Not what another site can cause by sending a browser here.
    is_attack = False

    def __init__(self, detail: str = "", **values: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.values = values

    @property
    def message(self) -> str:
        return str(self.words) % self.values if self.values else str(self.words)


class StaleError(SignInError):
    words = _("This sign-in has ended: it was used already, took longer than ten minutes, or began in another browser.")
    next_step = AGAIN


class RefusedError(SignInError):
    words = _("The sign-in was cancelled, or the sign-in service refused it.")
    next_step = _("Sign in again. If it is refused, ask who manages your account there.")
    status = 403
    is_noted = False


class UnreachableError(SignInError):
    words = _("The sign-in service does not answer.")
    next_step = WAIT
    status = 502
    is_noted = False


class MisconfiguredError(SignInError):
    words = _("The sign-in service and the settings of this hub do not fit together.")
    status = 502
    is_noted = False


class ClockError(SignInError):
    words = _("The clocks of this hub and of the sign-in service differ.")
    status = 502
    is_noted = False


class UntrustedError(SignInError):
    words = _("The answer of the sign-in service cannot be trusted.")
    is_attack = True


class NoAccessError(SignInError):
    words = _("You are signed in as %(name)s, but none of your groups has access to this hub.")
    next_step = _("Ask an administrator of this hub which group you need, and who can add you to it.")
    status = 403


class LastSuperuserError(SignInError):
    words = _("%(name)s is the last superuser of this hub, and your groups give another role.")
    next_step = _("Make another user a superuser first, or restore the group. Then sign in again.")
    status = 403


class InactiveError(SignInError):
    words = _("The account of %(name)s in this hub is switched off.")
    next_step = _("Ask an administrator of this hub.")
    status = 403
