"""The page for who may not see a page: which role it needs, which one the user has, and who can change that."""

from __future__ import annotations

from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views import defaults

from tools_app import governance
from tools_app.access.actions import ACTIONS, ROLES, Action
from tools_app.admin.user_forms import role_name

# What the pages of a model need.
_VERBS: Final = {"changelist": "view", "history": "view", "change": "view", "add": "add", "delete": "delete"}


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponseBase:
    """Django's `handler403`. Pages name the action that they need in the exception; those of a model need none."""
    user: Any = getattr(request, "user", None)
    action = next((part for part in exception.args if isinstance(part, Action)), None)
    permission = action.permission if action is not None and action.right else _permission_of(request)
    if user is None or not user.is_authenticated or not permission:
        return defaults.permission_denied(request, exception)
    roles = [one.role for one in ACTIONS if one.right and one.permission == permission and one.role]
    role = governance.role_of(user)
    needed = min(roles, key=ROLES.index, default="")
    context = {
        "needed": needed and role_name(needed),
        "role": role_name(role),
        # No role has it: a superuser is refused because the page changes records of the hub.
        "is_for_nobody": role == "superuser",
        "permission": permission if role == "custom" else "",
    }
    page: HttpResponse = render(request, "403.html", context, status=403)
    return page


def _permission_of(request: HttpRequest) -> str:
    """What Django has asked for, of a page of a model."""
    name = getattr(request.resolver_match, "url_name", "") or ""
    for model in admin.site._registry:
        options = model._meta
        label = f"{options.app_label}_{options.model_name}_"
        if not name.startswith(label):
            continue
        verb = _VERBS.get(name.removeprefix(label), "view")
        reading = f"{options.app_label}.view_{options.model_name}"
        if verb != "view" or not request.user.has_perm(reading):
            return f"{options.app_label}.{verb}_{options.model_name}"
        # It is visible, so that more than seeing it was asked for.
        return f"{options.app_label}.change_{options.model_name}"
    return ""
