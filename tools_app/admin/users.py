"""Users and groups. A user has one role; groups and single permissions are for those who need something else."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar, Final, Protocol, cast

from django.apps import apps
from django.contrib import admin, messages
from django.contrib.auth import admin as auth_admin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links, password_links, sessions
from tools_app.admin.governed import FailuresAsMessages, GovernedAdmin, actor, posted, require
from tools_app.admin.lists import Column, ListAdmin
from tools_app.admin.user_forms import ROLE_NAMES, PermissionsForm, UserForm, role_name
from tools_app.models import PasswordLink
from tools_app.models.audit import note, note_all


class _Row(Protocol):
    """A user with what the list shows beside the columns of the table."""

    pk: int
    is_active: bool
    last_login: datetime | None
    role: str
    is_locked: bool
    invited_until: datetime | None
    factor: str


# Of the site `toolhub`; other sites may have other apps for it, or none.
_FACTORS: Final = "allauth.mfa"


def _address(view: str, *arguments: Any) -> str:
    return reverse(f"admin:auth_user_{view}", args=arguments)


def _second_factors(users: list[User]) -> set[int]:
    """Which users have set one up, if the site has a table of them."""
    if not apps.is_installed(_FACTORS):
        return set()
    rows = apps.get_model("mfa", "Authenticator")._default_manager.filter(user__in=users)
    return set(rows.exclude(type="recovery_codes").values_list("user", flat=True))


class UserAdmin(GovernedAdmin[User]):
    form = UserForm
    managed_editable: ClassVar = frozenset({"email"})
    list_display = ("shown_name", "shown_role", "state", "signed_in", "second_factor")
    list_display_links = None
    list_filter = ("is_active", "is_superuser", "groups")
    search_fields = ("username", "email")
    search_help_text = gettext_lazy("Name or e-mail address")
    ordering = ("username",)
    actions = None
    change_list_template = "admin/tools_app/user/change_list.html"
    change_form_template = "admin/tools_app/user/change_form.html"
    views: ClassVar = {"permissions": "<int:pk>/permissions/", "deactivate": "<int:pk>/deactivate/"}
    posts: ClassVar = {
        "link": "<int:pk>/link/", "reactivate": "<int:pk>/reactivate/", "unlock": "<int:pk>/unlock/"
    }  # fmt: skip

    def get_urls(self) -> list[URLPattern]:
        # Not wrapped by the admin: its users cannot sign in, yet.
        link = path("choose-password/", password_links.choose_password, name=password_links.NAME)
        return [link, *super().get_urls()]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return actions.USER_CREATE.permits(request.user)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        return actions.USER_DELETE.permits(request.user)

    def get_form(self, request: HttpRequest, obj: User | None = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        return type("FormOfUser", (form,), {"may_make_superusers": actions.SUPERUSER_CHANGE.permits(request.user)})

    def get_fieldsets(self, request: HttpRequest, obj: User | None = None) -> Any:
        return [(None, {"fields": self.get_fields(request, obj)})]

    def get_fields(self, request: HttpRequest, obj: User | None = None) -> tuple[str, ...]:
        if obj is not None and not self.has_change_permission(request, obj):
            return ("username", "email", "own_role")
        return ("username", "email", "role")

    readonly_fields = ("own_role",)

    # ---------------------------------------------------------------------------------------------------- list

    def complete_rows(self, request: HttpRequest, rows: Iterable[User]) -> None:
        users = list(rows)
        roles, locked = governance.roles_of(users), governance.locked_names()
        with_factor, at_provider = _second_factors(users), governance.at_provider(users)
        invited = dict(PasswordLink.objects.filter(user__in=users).values_list("user", "expires_at"))
        for user in users:
            row = cast(_Row, user)
            row.role, row.is_locked = roles[user.pk], user.username in locked
            row.factor = "provider" if user.pk in at_provider else "own" if user.pk in with_factor else ""
            row.invited_until = invited.get(user.pk) if not governance.has_signed_up(user) else None

    shown_name = Column[User](
        gettext_lazy("Name"),
        lambda user: links.named(_address("change", user.pk), user.username, user.email),
        "username",
    )
    shown_role = Column[_Row](gettext_lazy("Role"), lambda user: ROLE_NAMES[user.role])
    own_role = Column[User](gettext_lazy("Role"), lambda user: role_name(governance.role_of(user)))
    signed_in = Column[User](
        gettext_lazy("Last sign-in"),
        lambda user: links.when(user.last_login) if user.last_login else _("never"),
        "last_login",
    )

    def get_list_display(self, request: HttpRequest) -> Any:
        shown = super().get_list_display(request)
        return shown if apps.is_installed(_FACTORS) else [name for name in shown if name != "second_factor"]

    @admin.display(description=gettext_lazy("Second factor"))
    def second_factor(self, user: User) -> SafeString:
        factor = cast(_Row, user).factor
        if factor == "provider":
            return links.mark("quiet", _("at the sign-in service"))
        return links.mark("good", _("set up")) if factor else links.mark("quiet", _("none"))

    @admin.display(description=gettext_lazy("State"))
    def state(self, user: User) -> SafeString:
        row = cast(_Row, user)
        if not user.is_active:
            return links.mark("quiet", _("deactivated"))
        if row.is_locked:
            return links.mark("bad", _("locked out"))
        if governance.has_signed_up(user):
            return links.mark("good", _("active"))
        until = row.invited_until
        if until is None or until <= timezone.now():
            return links.mark("warn", _("no valid invitation"))
        return links.with_sub(links.mark("warn", _("invited")), _("until %(time)s") % {"time": links.stamp(until)[:16]})

    # ------------------------------------------------------------------------------------------------ changing

    @sensitive_variables("code")
    def save_model(self, request: HttpRequest, obj: User, form: ModelForm[User], change: bool) -> None:
        by, role = actor(request), form.cleaned_data["role"]
        with transaction.atomic():
            if change:
                governance.change_user(obj, name=obj.username, email=obj.email, actor=by)
                if role != "custom":
                    governance.set_role(User.objects.get(pk=obj.pk), role, actor=by)
                return
            user = governance.add_user(obj.username, email=obj.email, role=role, actor=by)
            code = governance.make_link(user, actor=by) if role else ""
        obj.pk = user.pk
        # Only on this request's object, so that the code does not outlive the response.
        obj.code = code  # type: ignore[attr-defined]

    def save_related(self, request: HttpRequest, form: ModelForm[User], formsets: Any, change: bool) -> None:
        """`governance` has saved the relations."""

    def response_add(self, request: HttpRequest, obj: User, post_url_continue: str | None = None) -> HttpResponse:
        code: str = obj.code  # type: ignore[attr-defined]
        if code:
            return self._shown_once(request, obj, code)
        self.message_user(request, _("%(name)s is added, without access.") % {"name": obj.username}, messages.SUCCESS)
        return HttpResponseRedirect(_address("change", obj.pk))

    def response_change(self, request: HttpRequest, obj: User) -> HttpResponse:
        self.message_user(request, _("%(name)s saved.") % {"name": obj.username}, messages.SUCCESS)
        # Who has taken their own access is not shown a refusal.
        return HttpResponseRedirect(request.get_full_path())

    @sensitive_variables("code")
    def _shown_once(self, request: HttpRequest, user: User, code: str) -> HttpResponse:
        """Without redirect or message, so that the link is stored nowhere."""
        is_first = not governance.has_signed_up(user)
        link = PasswordLink.objects.get(user=user)
        return self.page(
            request,
            "user/link.html",
            _("Invitation") if is_first else _("Reset link"),
            subject=user,
            role=role_name(governance.role_of(user)),
            is_first=is_first,
            link=password_links.address(request, code),
            expires_at=link.expires_at,
            list_address=_address("changelist"),
        )

    @sensitive_variables("code")
    def link_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.USER_INVITE)
        user = get_object_or_404(User, pk=pk)
        with FailuresAsMessages(request):
            code = governance.make_link(user, actor=actor(request), reason=posted(request, "reason"))
            return self._shown_once(request, user, code)
        return HttpResponseRedirect(_address("change", pk))

    def unlock_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.USER_UNLOCK)
        user = get_object_or_404(User, pk=pk)
        with FailuresAsMessages(request):
            governance.unlock_user(user, actor=actor(request))
            self.message_user(request, _("%(name)s can sign in again.") % {"name": user.username}, messages.SUCCESS)
        return HttpResponseRedirect(_address("change", pk))

    def reactivate_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.USER_REACTIVATE)
        user = get_object_or_404(User, pk=pk)
        with FailuresAsMessages(request):
            governance.reactivate_user(user, actor=actor(request), reason=posted(request, "reason"))
            self.message_user(request, _("%(name)s can sign in again.") % {"name": user.username}, messages.SUCCESS)
        return HttpResponseRedirect(_address("change", pk))

    # ----------------------------------------------------------------------------------------------- removing

    def deactivate_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.USER_DEACTIVATE)
        user = get_object_or_404(User, pk=pk)
        if request.method != "POST":
            return self._asked(request, user, _("Deactivate %(name)s"), _("Deactivate"))
        with FailuresAsMessages(request):
            keys, reason = posted(request, "keys") or governance.STOP_KEYS, posted(request, "reason")
            governance.deactivate_user(user, keys=keys, actor=actor(request), reason=reason)
            message = _("%(name)s is deactivated. All sessions have ended.") % {"name": user.username}
            self.message_user(request, message, messages.SUCCESS)
        return HttpResponseRedirect(_address("change", pk))

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        require(request, actions.USER_DELETE)
        user = self.get_object(request, object_id)
        if user is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        if request.method != "POST":
            return self._asked(request, user, _("Delete %(name)s"), _("Delete"), is_deleted=True)
        with FailuresAsMessages(request):
            keys, reason = posted(request, "keys") or governance.STOP_KEYS, posted(request, "reason")
            governance.delete_user(user, keys=keys, actor=actor(request), reason=reason)
            self.message_user(request, _("%(name)s is deleted.") % {"name": user.username}, messages.SUCCESS)
            return HttpResponseRedirect(_address("changelist"))
        return HttpResponseRedirect(_address("change", user.pk))

    def _asked(
        self, request: HttpRequest, user: User, title: str, button: str, *, is_deleted: bool = False
    ) -> HttpResponse:
        """The confirmation, with what ends, and what remains."""
        return self.page(
            request,
            "user/remove.html",
            title % {"name": user.username},
            belongings=governance.belongings(user),
            button=button,
            is_deleted=is_deleted,
            cancel_address=_address("change", user.pk),
        )

    # --------------------------------------------------------------------------------------------- permissions

    def permissions_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Groups and single permissions, in place of a role."""
        require(request, actions.USER_PERMISSIONS)
        user = get_object_or_404(User, pk=pk)
        before = {"groups": user.groups.all(), "permissions": user.user_permissions.all()}
        form = PermissionsForm(request.POST if request.method == "POST" else None, initial=before)
        if request.method == "POST" and form.is_valid():
            with FailuresAsMessages(request):
                governance.set_permissions(user, **form.cleaned_data, actor=actor(request))
                self.message_user(request, _("%(name)s saved.") % {"name": user.username}, messages.SUCCESS)
                return HttpResponseRedirect(_address("change", pk))
        title = _("Permissions of %(name)s") % {"name": user.username}
        return self.page(request, "user/permissions.html", title, form=form, cancel_address=_address("change", pk))

    # ---------------------------------------------------------------------------------------------------- page

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], user: User | None) -> None:
        if user is None:
            return
        # A rejected form has changed the object; show the stored values.
        user = User.objects.get(pk=user.pk)
        self.complete_rows(request, [user])
        is_custom = cast(_Row, user).role == "custom"
        open_sessions = list(governance.open_sessions().filter(user=user).select_related("user"))
        sessions.mark(request, open_sessions)
        context.update(
            subject=user,
            subject_state=self.state(user),
            subject_role=ROLE_NAMES[cast(_Row, user).role],
            is_self=user == request.user,
            has_signed_up=governance.has_signed_up(user),
            is_locked=cast(_Row, user).is_locked,
            belongings=governance.belongings(user) if actions.KEYS_READ.permits(request.user) else None,
            sessions=open_sessions,
            may_end_all=any(one.may_end and not one.is_this for one in cast(list[Any], open_sessions)),
            own_groups=user.groups.all() if is_custom else (),
            own_permissions=user.user_permissions.select_related("content_type") if is_custom else (),
            may_edit=self.has_change_permission(request, user),
        )


class GroupAdmin(auth_admin.GroupAdmin, ListAdmin[Any]):
    """Groups are Django's own, so what changes them is recorded here."""

    def log_addition(self, request: HttpRequest, obj: Group, message: Any) -> Any:
        self._note(request, "create", obj, message)
        return super().log_addition(request, obj, message)

    def log_change(self, request: HttpRequest, obj: Group, message: Any) -> Any:
        self._note(request, "change", obj, message)
        return super().log_change(request, obj, message)

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        with transaction.atomic():
            note_all([("group.delete", f"group:{group}", {}) for group in queryset], actor=actor(request).name)
        return super().log_deletions(request, queryset)

    def _note(self, request: HttpRequest, verb: str, group: Group, message: Any) -> None:
        parts = message if isinstance(message, list) else []
        fields = [
            name for part in parts if isinstance(part, dict) for name in part.get("changed", {}).get("fields", [])
        ]
        changes = {"fields": [None, fields]} if fields else {}
        with transaction.atomic():
            note(f"group.{verb}", f"group:{group}", actor=actor(request).name, changes=changes)


# A project with its own user model or pages keeps them.
_PAGES: Final[tuple[tuple[Any, Any], ...]] = ((User, UserAdmin), (Group, GroupAdmin))
for model, pages in _PAGES:
    if admin.site.is_registered(model):
        admin.site.unregister(model)
        admin.site.register(model, pages)
