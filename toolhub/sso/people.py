"""From verified claims to a user of the admin and their role.

A person is the pair of issuer and `sub`. Names and mail addresses do not identify: a local user who has the same
stays another person.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from allauth.socialaccount.models import SocialAccount
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.db import IntegrityError, transaction
from django.http import HttpRequest

from toolhub.sso import provider
from toolhub.sso.failures import InactiveError, LastSuperuserError, NoAccessError, UntrustedError
from tools_app import governance
from tools_app.access.actions import ROLES
from tools_app.sdk.errors import ConflictError, ValidationError
from tools_app.upstream.oauth.protocol import text_of

SUPERUSER: Final = "superuser"
# From the least to the most.
ALL_ROLES: Final = (*ROLES, SUPERUSER)
MOST_SUB: Final = 191
MOST_NAME: Final = 100
MOST_TEXT: Final = 150
MOST_GROUPS: Final = 10_000
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9.@+_-]+")


class Backend(ModelBackend):
    """Sessions of people who signed in at the provider. They end where it is not this hub's provider any more."""

    channel = "sso"

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **_: Any
    ) -> None:
        """No user: `views` begins these sessions."""

    def get_user(self, user_id: int) -> Any:
        manager = get_user_model()._default_manager
        user = manager.filter(pk=user_id, socialaccount__provider=settings.TOOLHUB_SSO_ISSUER).first()
        return user if user is not None and self.user_can_authenticate(user) else None


def has_provider(user: Any) -> bool:
    """Whether the provider decides about the access of this user, so that no password gives any."""
    return bool(SocialAccount.objects.filter(user=user).exists())


def user_of(claims: Mapping[str, Any]) -> Any:
    """The user with these claims, with the role that their groups give. It is created at the first sign-in.

    Raises:
        NoAccessError: none of the groups has access; if the user had access, it has ended, with all sessions.
        LastSuperuserError: the groups give less to the last superuser of the hub; the sessions have ended.
        InactiveError: an administrator has switched the user off.
    """
    sub = claims["sub"]
    if not isinstance(sub, str) or not 0 < len(sub) <= MOST_SUB:
        raise UntrustedError(f"`sub` is not a text of 1 to {MOST_SUB} characters")
    role = role_of(claims)
    user = _known(sub)
    if user is None:
        if not role:
            raise NoAccessError("a new person without a mapped group", name=_shown(claims))
        user = _created(sub, claims)
    actor = governance.trusted(f"sso:{provider.host()}")
    try:
        governance.set_role(user, role, actor=actor, reason="groups at the sign-in service")
    except ConflictError as error:
        # Of the last superuser: the account stays, without a way to sign in.
        governance.end_all_sessions(user)
        if not role:
            raise NoAccessError(error.message, name=user.get_username()) from error
        raise LastSuperuserError(error.message, name=user.get_username()) from error
    if not role:
        raise NoAccessError("none of the groups is mapped", name=user.get_username())
    if not user.is_active:
        raise InactiveError("switched off in this hub", name=user.get_username())
    return user


def role_of(claims: Mapping[str, Any]) -> str:
    """The highest role of the person's groups; empty if none of them has one."""
    by_group = dict(pair.rpartition("=")[::2] for pair in settings.TOOLHUB_SSO_ROLES)
    roles = {by_group[group] for group in groups_of(claims) if group in by_group}
    return max(roles, key=ALL_ROLES.index, default="")


def groups_of(claims: Mapping[str, Any]) -> list[str]:
    name = settings.TOOLHUB_SSO_GROUPS_CLAIM
    value: Any = claims.get(name)
    if value is None:
        value = claims
        for part in name.split("."):  # `realm_access.roles`
            value = value.get(part) if isinstance(value, Mapping) else None
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [group for group in values[:MOST_GROUPS] if isinstance(group, str)]


def _known(sub: str) -> Any:
    account = SocialAccount.objects.select_related("user").filter(provider=settings.TOOLHUB_SSO_ISSUER, uid=sub).first()
    return account.user if account is not None else None


def _created(sub: str, claims: Mapping[str, Any]) -> Any:
    actor = governance.trusted(f"sso:{provider.host()}")
    email = text_of(claims, "email", 254)
    names = {
        "first_name": text_of(claims, "given_name", MOST_TEXT),
        "last_name": text_of(claims, "family_name", MOST_TEXT),
        # For people to read; an address that the provider has not verified can be anybody's.
        "email": email if claims.get("email_verified") is True else "",
    }
    for _ in range(3):
        try:
            with transaction.atomic():
                user = governance.add_user(_free_name(sub, claims), role="", **names, actor=actor)
                SocialAccount.objects.create(user=user, provider=settings.TOOLHUB_SSO_ISSUER, uid=sub)
                return user
        except (IntegrityError, ValidationError):
            # Another sign-in created the person, or took the name, at the same time.
            if (user := _known(sub)) is not None:
                return user
    raise UntrustedError("no user name is free")


def _free_name(sub: str, claims: Mapping[str, Any]) -> str:
    """A user name that is free, in any letter case. It does not change later: the audit trail names it."""
    base = _shown(claims) or f"user-{hashlib.sha256(sub.encode()).hexdigest()[:8]}"
    similar = get_user_model()._default_manager.filter(username__istartswith=base)
    taken = {name.casefold() for name in similar.values_list("username", flat=True)}
    return next(
        name for number in range(1, len(taken) + 3) if (name := _numbered(base, number)).casefold() not in taken
    )


def _numbered(base: str, number: int) -> str:
    return base if number == 1 else f"{base}-{number}"


def _shown(claims: Mapping[str, Any]) -> str:
    for name in ("preferred_username", "email", "name"):
        decomposed = unicodedata.normalize("NFKD", text_of(claims, name, MOST_TEXT))
        text = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
        # Other letters can look like these: a name with them is not used at all.
        if text.isascii() and (cleaned := _NOT_IN_NAMES.sub("-", text).strip("-.")[:MOST_NAME]):
            return cleaned
    return ""
