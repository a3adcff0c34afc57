"""The form to sign in, which says why a right password is not enough. Who does not know the password learns nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

# The pages of the hub need the site, which is only made when this is imported.
if TYPE_CHECKING:
    from django.contrib.admin.forms import AdminAuthenticationForm as AuthenticationForm
else:
    from unfold.forms import AuthenticationForm

_KNOWN: Final = "_toolhub_deactivated_with_password"


class DeactivatedUsers:
    """Refuses users who are deactivated, and notes on the request that the password was right.

    Comes before the backend that signs in, which refuses them like a wrong password. The password is hashed once for
    every name there is or is not, so that the time tells nothing.
    """

    @sensitive_variables("password")
    def authenticate(self, request: HttpRequest | None, **credentials: Any) -> None:
        users = get_user_model()
        name = credentials.get("username", credentials.get(users.USERNAME_FIELD))
        password = credentials.get("password")
        if name is None or password is None:
            return
        user: Any = users._default_manager.filter((users.USERNAME_FIELD, name), is_active=False).first()
        if user is None:
            return
        if user.check_password(password) and request is not None:
            setattr(request, _KNOWN, True)
        raise PermissionDenied


class SignInForm(AuthenticationForm):
    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": _("The user name or the password is wrong. Capital and small letters are different."),
        "deactivated": _(
            "The password is right, but this user is deactivated. "
            "An administrator of this hub (role admin) can reactivate it under Users."
        ),
        "no_role": _(
            "The password is right, but this user has no role in this hub. "
            "An administrator of this hub (role admin) can choose one under Users."
        ),
    }

    def get_invalid_login_error(self) -> ValidationError:
        code = "deactivated" if getattr(self.request, _KNOWN, False) else "invalid_login"
        return ValidationError(self.error_messages[code], code=code)

    def confirm_login_allowed(self, user: Any) -> None:
        if not user.is_staff:
            raise ValidationError(self.error_messages["no_role"], code="no_role")
