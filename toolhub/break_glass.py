"""The page of an emergency link (`toolhub breakglass`): it works while the sign-in service is down."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, Final

from django.contrib.auth import login
from django.contrib.auth.backends import ModelBackend
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from toolhub import signing_in
from tools_app import governance
from tools_app.sdk.errors import ConflictError

log = logging.getLogger("toolhub.signing_in")

BACKEND: Final = "toolhub.break_glass.Backend"
MOST_SESSION: Final = timedelta(hours=1)


class Backend(ModelBackend):
    """Sessions of an emergency link."""

    channel = "emergency link"

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **_: Any
    ) -> None:
        """No user: `page` begins these sessions."""


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def page(request: HttpRequest, token: str) -> HttpResponse:
    """Asks before the link is used: programs that look at links in messages must not use it up."""
    if (refusal := signing_in.slowed(request)) is not None:
        return refusal
    try:
        if request.method != "POST":
            return render(request, "admin/break_glass.html", {"named_user": governance.user_of_emergency(token)})
        # The sign-in makes the link void: one transaction, so that it counts once.
        with transaction.atomic():
            user = governance.user_of_emergency(token, locked=True)
            login(request, user, backend=BACKEND)
    except ConflictError as error:
        signing_in.sign_in_failed({}, request)
        return render(request, "admin/break_glass.html", {"error": error}, status=error.status)
    log.warning("%s signed in with an emergency link", user.get_username())
    request.session.set_expiry(timezone.now() + MOST_SESSION)
    return HttpResponseRedirect(reverse("admin:index"))
