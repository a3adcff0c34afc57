"""Records that change through `governance` and in no other way."""

from __future__ import annotations

import logging
from typing import Any, Final, TypeVar

from django.contrib import messages
from django.db import DatabaseError, models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy

from tools_app.admin.lists import ListAdmin
from tools_app.sdk.errors import ToolError

log = logging.getLogger("tools_app.admin")

Record = TypeVar("Record", bound=models.Model)

BUSY: Final = gettext_lazy("The database is not writable right now; nothing was changed. Try again in a moment.")


def actor(request: HttpRequest) -> str:
    """Who the audit trail names."""
    return f"user:{request.user.get_username()}"


class FailuresTold:
    """Turns failures inside the block into messages to the user."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, ToolError):
            said = " ".join(filter(None, (error.message.rstrip(".") + ".", error.next_step)))
        elif isinstance(error, DatabaseError):
            log.error("a change in the admin failed", exc_info=error)
            said = str(BUSY)
        else:
            return False
        messages.error(self._request, said)
        return True


class GovernedAdmin(ListAdmin[Record]):
    """Nothing is added or deleted here; what may change says how, by calling `governance`."""

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Record | None:
        return None if "\x00" in object_id else super().get_object(request, object_id, from_field)

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
            with FailuresTold(request):
                return super().changeform_view(request, object_id, form_url, extra_context)
            return HttpResponseRedirect(request.get_full_path())
        return super().changeform_view(request, object_id, form_url, extra_context)

    # `governance` has written its audit entry; a second record of the same change would only differ from it.

    def log_addition(self, request: HttpRequest, obj: Record, message: Any) -> Any:
        return None

    def log_change(self, request: HttpRequest, obj: Record, message: Any) -> Any:
        return None
