"""Users and groups, with the admin's theme and audit trail."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth import admin as auth_admin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from tools_app.admin import links, theme
from tools_app.admin.governed import actor
from tools_app.admin.lists import Column, ListAdmin
from tools_app.models.audit import note, note_all


class AuditedAdmin(ListAdmin[Any]):
    """Users and their permissions are governed here, so every change is recorded in the audit log."""

    def log_addition(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        self._note(request, "create", obj, message)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Model, message: Any) -> Any:
        self._note(request, "change", obj, message)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        kind = self.opts.model_name
        with transaction.atomic():
            note_all([(f"{kind}.delete", f"{kind}:{obj}", {}) for obj in queryset], actor=actor(request).name)
        return super().log_deletions(request, queryset)

    def _note(self, request: HttpRequest, verb: str, obj: Model, message: Any) -> None:
        kind = self.opts.model_name
        with transaction.atomic():
            note(f"{kind}.{verb}", f"{kind}:{obj}", actor=actor(request).name, changes=_fields(message))


def _fields(message: Any) -> dict[str, Any]:
    """Names of changed fields, without values, as one is the password."""
    if not isinstance(message, list):
        return {"what": [None, str(message)]} if message else {}
    fields = [name for part in message if isinstance(part, dict) for name in part.get("changed", {}).get("fields", [])]
    return {"fields": [None, fields]} if fields else {}


class UserAdmin(auth_admin.UserAdmin, AuditedAdmin):  # type: ignore[type-arg]  # it takes none when it runs
    form = theme.UserChangeForm
    add_form = theme.AdminUserCreationForm
    change_password_form = theme.AdminPasswordChangeForm
    list_display = ("username", "email", "is_active", "is_staff", "is_superuser", "signed_in")

    signed_in = Column[User](gettext_lazy("Last login"), lambda user: links.when(user.last_login), "last_login")


class GroupAdmin(auth_admin.GroupAdmin, AuditedAdmin):
    pass


# A project with its own user model or pages keeps them.
for model, pages in ((User, UserAdmin), (Group, GroupAdmin)):
    if admin.site.is_registered(model):
        admin.site.unregister(model)
        admin.site.register(model, pages)
