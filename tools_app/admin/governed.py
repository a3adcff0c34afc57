"""Admin pages of records that change only through `governance`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, models
from django.forms import Media, ModelForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from tools_app import governance
from tools_app.access.actions import Action
from tools_app.admin.lists import ListAdmin
from tools_app.admin.managed import Managed, managed, read_only
from tools_app.sdk.errors import ToolError

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

log = logging.getLogger("tools_app.admin")

Record = TypeVar("Record", bound=models.Model)

BUSY: Final = gettext_lazy("The database is not writable right now; nothing was changed. Try again in a moment.")


def actor(request: HttpRequest) -> governance.Actor:
    return governance.of_user(request.user)


def require(request: HttpRequest, action: Action) -> None:
    """Raises: PermissionDenied."""
    if not action.permits(request.user):
        raise PermissionDenied(action)


def sentences(error: ToolError) -> str:
    """What is wrong, and what to do."""
    return " ".join(filter(None, (error.message.rstrip(".") + ".", error.next_step)))


class FailuresAsMessages:
    """Turns failures inside the block into messages to the user."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, ToolError):
            message = sentences(error)
        elif isinstance(error, DatabaseError):
            log.error("a change in the admin failed", exc_info=error)
            message = str(BUSY)
        else:
            return False
        messages.error(self._request, message)
        return True


def posted(request: HttpRequest, name: str) -> str:
    """A text of a form, without what no database stores."""
    return request.POST.get(name, "").strip().replace("\x00", "")


class GovernedAdmin(ListAdmin[Record]):
    """No adding or deleting by default; subclasses change records only through `governance`."""

    posts: ClassVar[Mapping[str, str]] = {}
    """Routes of what forms of its own pages send: `switch` goes to `switch_view`, and is named
    `admin:tools_app_<model>_switch`."""
    views: ClassVar[Mapping[str, str]] = {}
    """Routes of further pages, likewise."""

    managed_editable: ClassVar[frozenset[str]] = frozenset()
    """Fields that stay editable although a configuration file manages the record."""

    # Django's scripts are for popups, generated slugs and lists of choices, which these forms do not have.
    media = Media()

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Record | None:
        return None if "\x00" in object_id else super().get_object(request, object_id, from_field)

    def get_urls(self) -> list[URLPattern]:
        wrap, prefix = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        views = [(name, route, getattr(self, f"{name}_view")) for name, route in self.views.items()]
        views += [(name, route, require_POST(getattr(self, f"{name}_view"))) for name, route in self.posts.items()]
        own = [path(route, wrap(view), name=f"{prefix}_{name}") for name, route, view in views]
        return [*own, *super().get_urls()]

    def page(self, request: HttpRequest, template: str, title: StrOrPromise, **context: Any) -> TemplateResponse:
        context = {**self.admin_site.each_context(request), "opts": self.opts, "title": title, **context}
        return TemplateResponse(request, f"admin/tools_app/{template}", context)

    def add_to_page(self, request: HttpRequest, context: dict[str, Any], record: Any) -> None:
        """What the page of a record shows beside its fields. None: a record to add."""

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        self.add_to_page(request, context, kwargs.get("obj"))
        by_file = self.managed(request, kwargs.get("obj"))
        if by_file is not None:
            context.update(by_file.context)
        response = super().render_change_form(request, context, *args, **kwargs)
        if by_file is not None and not self.managed_editable:
            # Django sets it last. The page is rendered later.
            context["has_change_permission"] = False
        return response

    def managed(self, request: HttpRequest, record: Any) -> Managed | None:
        """The file that manages a record, and how the record differs from it."""
        return managed(request, self.opts.model_name, record)

    def get_form(
        self, request: HttpRequest, obj: Record | None = None, change: bool = False, **kwargs: Any
    ) -> type[ModelForm[Record]]:
        form = super().get_form(request, obj, change, **kwargs)
        return form if self.managed(request, obj) is None else read_only(form, self.managed_editable)

    def response_change(self, request: HttpRequest, obj: Record) -> HttpResponse:
        message = _("%(name)s saved. Applies from the next call.") % {"name": getattr(obj, "name", obj)}
        self.message_user(request, message, messages.SUCCESS)
        return HttpResponseRedirect(request.get_full_path())

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Record | None = None) -> bool:
        return False

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method == "POST":
            with FailuresAsMessages(request):
                return super().changeform_view(request, object_id, form_url, extra_context)
            return HttpResponseRedirect(request.get_full_path())
        return super().changeform_view(request, object_id, form_url, extra_context)

    # `governance` has written the audit entry, so Django's own log entries are not needed.

    def log_addition(self, request: HttpRequest, obj: Record, message: Any) -> Any:
        return None

    def log_change(self, request: HttpRequest, obj: Record, message: Any) -> Any:
        return None
