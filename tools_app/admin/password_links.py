"""The page that an invitation or a reset link opens: for people who are not signed in.

The code comes after the # of the link, which browsers send to no server: neither the hub nor a proxy can log it, no
program that previews links can use it up, and no `Referer` has it. A script moves it into the form; without scripts
people paste it. With the policy `no-referrer`, browsers would send the form with the origin `null`, which is refused.
"""

from __future__ import annotations

import math
from typing import Any, Final

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from tools_app import governance
from tools_app.access import limits
from tools_app.admin.user_forms import ROLE_WORDS, PasswordForm
from tools_app.sdk.errors import AuthenticationError, ValidationError

NAME: Final = "auth_user_choose_password"


def address(request: HttpRequest, code: str) -> str:
    """The link to hand over."""
    path = reverse(f"admin:{NAME}")
    whole = f"{public}{path}" if (public := governance.public_url()) else request.build_absolute_uri(path)
    return f"{whole}#{code}"


@never_cache
@csrf_protect
@sensitive_post_parameters("code", "password", "again")
def choose_password(request: HttpRequest) -> HttpResponse:
    """Ask for the code, then for the password. It does not sign in: the browser may be another user's."""
    if request.method == "POST":
        status = limits.count_sign_in(request.META.get("REMOTE_ADDR", ""))
        if status is not None and status.wait:
            response = render(request, "admin/locked.html", {"slowed": True}, status=429)
            response["Retry-After"] = str(math.ceil(status.wait))
            return response
        return _answered(request)
    return _page(request)


@sensitive_variables("code", "form")
def _answered(request: HttpRequest) -> HttpResponse:
    code = request.POST.get("code", "").strip().rpartition("#")[2]
    try:
        invited = governance.invitation(code)
        if "password" not in request.POST:
            return _page(request, invited=invited, form=PasswordForm(initial={"code": code}))
        form = PasswordForm({**request.POST.dict(), "code": code})
        if form.is_valid():
            try:
                governance.redeem_link(code, form.cleaned_data["password"])
                return _page(request, invited=invited, is_done=True)
            except ValidationError as error:
                form.add_error("password", [problem.message for problem in error.problems])
        return _page(request, invited=invited, form=form)
    except AuthenticationError as error:
        return _page(request, refusal=error)


def _page(request: HttpRequest, **context: Any) -> HttpResponse:
    invited = context.get("invited")
    title = _("Choose a password") if not context.get("is_done") else _("Your password is set")
    if invited is not None:
        context["role_words"] = ROLE_WORDS[invited.role]
        context["inviter"] = invited.made_by.partition(":")[2] or invited.made_by
    return render(
        request,
        "admin/choose_password.html",
        {**admin.site.each_context(request), "title": title, "address": reverse(f"admin:{NAME}"), **context},
    )
