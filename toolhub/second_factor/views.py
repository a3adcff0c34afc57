"""Pages of the second factor: asked for at the sign-in, set up, shown, removed."""

from __future__ import annotations

import base64
import time
from typing import Any, Final

from axes.handlers.proxy import AxesProxyHandler
from django.contrib import admin, messages
from django.contrib.auth import get_user_model, load_backend, login
from django.contrib.auth.signals import user_login_failed
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST

from toolhub import signing_in
from toolhub.second_factor import factors, passkeys
from toolhub.sso import people
from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links
from tools_app.admin.governed import FailuresAsMessages, actor, posted, require, sentences
from tools_app.base import secrets
from tools_app.governance import roles
from tools_app.sdk.errors import ToolError

ASKED, SECRET, PASSKEY = "second_factor_asked", "second_factor_secret", "second_factor_passkey"
# Between the password and the code.
ASKED_SECONDS: Final = 300
MOST_TRIES: Final = 5
# Between the picture and its first code, or the name and its passkey.
SET_UP_SECONDS: Final = 900
BACKEND: Final = "django.contrib.auth.backends.ModelBackend"


def ask(request: HttpRequest, user: Any, next_url: str) -> HttpResponse:
    """After the password: the session remembers who is going to be signed in, and nothing else is permitted yet."""
    request.session.cycle_key()
    request.session[ASKED] = {
        "user": user.pk,
        "state": user.get_session_auth_hash(),
        "next": next_url,
        "at": time.time(),
        "tries": 0,
    }
    return HttpResponseRedirect(reverse("second_factor_challenge"))


@sensitive_post_parameters("code")
@never_cache
def challenge(request: HttpRequest) -> HttpResponse:
    asked = request.session.get(ASKED)
    user = _user_of(asked)
    if asked is None or user is None:
        request.session.pop(ASKED, None)
        return HttpResponseRedirect(reverse("admin:login"))
    if request.method != "POST":
        return _challenge(request, user)
    # It counts for one answer, whatever that is.
    question = asked.pop("passkey", "")
    request.session[ASKED] = asked
    credentials = {"username": user.get_username()}
    if not AxesProxyHandler.is_allowed(request, credentials):
        return signing_in.locked(request, None, credentials)
    try:
        if answer := posted(request, "passkey"):
            fits = passkeys.verify(user, passkeys.site_of(request), question, answer)
        else:
            fits = factors.verify(user, posted(request, "code")[:100])
    except ToolError as error:
        return _challenge(request, user, sentences(error), 429 if error.retryable else 409)
    if not fits:
        if answer:
            words = _("This passkey does not fit, or the page was open for too long. Try again, or enter a code.")
        else:
            words = _("This code does not fit, or was used already. Enter the one that is shown now.")
        return _wrong(request, user, words)
    del request.session[ASKED]
    login(request, user, backend=BACKEND)
    return HttpResponseRedirect(asked["next"])


def _user_of(asked: dict[str, Any] | None) -> Any:
    """The user who has entered the password; None if that was too long ago, or the user has changed since."""
    if asked is None or not 0 <= time.time() - asked["at"] <= ASKED_SECONDS or asked["tries"] >= MOST_TRIES:
        return None
    user = load_backend(BACKEND).get_user(asked["user"])
    return user if user is not None and user.get_session_auth_hash() == asked["state"] else None


def _wrong(request: HttpRequest, user: Any, words: str) -> HttpResponse:
    asked = request.session[ASKED]
    asked["tries"] += 1
    request.session[ASKED] = asked
    credentials = {"username": user.get_username()}
    user_login_failed.send(sender=__name__, credentials=credentials, request=request)
    return _challenge(request, user, words)


def _challenge(request: HttpRequest, user: Any, error: str = "", status: int = 200) -> HttpResponse:
    site, own = passkeys.site_of(request), passkeys.of(user)
    options, challenge = passkeys.question(user, site) or ("", "")
    request.session[ASKED] = {**request.session[ASKED], "passkey": challenge}
    context = {
        **admin.site.each_context(request),
        "title": _("Second factor"),
        "error": error,
        "has_app": factors.has_app(user),
        "has_passkey": bool(own),
        "options": options,
        "hosts": ", ".join(sorted({row.data["host"] for row in own})),
        "site": site,
    }
    return render(request, "admin/second_factor/challenge.html", context, status=status)


# ---- one's own


@never_cache
@require_GET
def page(request: HttpRequest) -> HttpResponse:
    return admin.site.admin_view(_page)(request)


def _page(request: HttpRequest) -> HttpResponse:
    is_on = factors.is_on(request.user)
    shown = {"is_on": is_on, "own": _own(request.user), "has_app": factors.has_app(request.user)}
    with FailuresAsMessages(request):
        return _render(
            request,
            "page.html",
            **shown,
            codes_left=factors.codes_left(request.user) if is_on else 0,
            has_provider=people.has_provider(request.user),
            others=_others(request),
        )
    return _render(request, "page.html", **shown, others=_others(request))


def _own(user: Any) -> list[dict[str, Any]]:
    return [
        {
            "pk": row.pk,
            "name": row.data["name"] if row.type == factors.PASSKEY else _("Authenticator app"),
            "host": row.data["host"] if row.type == factors.PASSKEY else "",
            "created": links.when(row.created_at),
            "used": links.when(row.last_used_at) if row.last_used_at else "",
        }
        for row in factors.of(user)
    ]


def _others(request: HttpRequest) -> list[Any]:
    """Whose second factor this user can reset."""
    if not roles.on_users(actions.USER_FACTOR_RESET).permits(request.user):
        return []
    is_superuser = actions.SUPERUSER_CHANGE.permits(request.user)
    return [one for one in factors.people() if one != request.user and (is_superuser or not one.is_superuser)]


@sensitive_post_parameters("password", "code")
@never_cache
def set_up(request: HttpRequest) -> HttpResponse:
    return admin.site.admin_view(_set_up)(request)


def _set_up(request: HttpRequest) -> HttpResponse:
    if factors.has_app(request.user) or people.has_provider(request.user):
        return HttpResponseRedirect(reverse("second_factor"))
    token = request.session.get(SECRET, "")
    kept = secrets.unsealed(token, SET_UP_SECONDS) if token else None
    secret = kept.decode() if kept is not None else factors.new_secret()
    if kept is None:
        request.session[SECRET] = secrets.sealed(secret.encode())
    elif request.method == "POST":
        with FailuresAsMessages(request):
            governance.confirmed(request.user, request.POST.get("password", ""))
            new_codes = factors.turn_on(request.user, secret, posted(request, "code")[:100])
            del request.session[SECRET]
            return _done(request, new_codes)
    picture = base64.b64encode(factors.picture(request.user, secret).encode()).decode()
    spaced = " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))
    return _render(request, "set_up.html", picture=picture, secret=spaced)


def _done(request: HttpRequest, new_codes: list[str]) -> HttpResponse:
    if new_codes:
        return _render(request, "codes.html", codes=new_codes)
    messages.success(request, _("Your second factor is set up. Your recovery codes stay valid."))
    return HttpResponseRedirect(reverse("second_factor"))


@sensitive_post_parameters("password")
@never_cache
def passkey(request: HttpRequest) -> HttpResponse:
    return admin.site.admin_view(_passkey)(request)


def _passkey(request: HttpRequest) -> HttpResponse:
    """First name and password, then the passkey, so that none is made which the hub does not store."""
    if people.has_provider(request.user):
        return HttpResponseRedirect(reverse("second_factor"))
    site = passkeys.site_of(request)
    name = posted(request, "name")[:200]
    # It counts for one answer, whatever that is.
    kept = request.session.pop(PASSKEY, None)
    if request.method == "POST" and site.is_fit:
        with FailuresAsMessages(request):
            if not (answer := posted(request, "passkey")):
                governance.confirmed(request.user, request.POST.get("password", ""))
                name = passkeys.checked_name(name)
                passkeys.check_room(request.user, name)
                return _made(request, site, {"name": name, "at": time.time()})
            if kept is None or not 0 <= time.time() - kept["at"] <= SET_UP_SECONDS:
                messages.error(request, _("That took too long. Enter name and password again."))
                return HttpResponseRedirect(reverse("second_factor_passkey"))
            return _done(request, passkeys.add(request.user, kept["name"], site, kept["challenge"], answer))
    return _render(request, "passkey.html", site=site, name=name)


def _made(request: HttpRequest, site: passkeys.Site, kept: dict[str, Any]) -> HttpResponse:
    """The page that asks the browser for a passkey."""
    options, challenge = passkeys.creation(request.user, site)
    request.session[PASSKEY] = {**kept, "challenge": challenge}
    return _render(request, "passkey.html", site=site, name=kept["name"], options=options)


@sensitive_post_parameters("password")
@never_cache
@require_POST
def codes(request: HttpRequest) -> HttpResponse:
    return admin.site.admin_view(_codes)(request)


def _codes(request: HttpRequest) -> HttpResponse:
    with FailuresAsMessages(request):
        governance.confirmed(request.user, request.POST.get("password", ""))
        return _render(request, "codes.html", codes=factors.renew_codes(request.user))
    return HttpResponseRedirect(reverse("second_factor"))


@sensitive_post_parameters("password")
@never_cache
@require_POST
def remove(request: HttpRequest) -> HttpResponse:
    return admin.site.admin_view(_remove)(request)


def _remove(request: HttpRequest) -> HttpResponse:
    with FailuresAsMessages(request):
        governance.confirmed(request.user, request.POST.get("password", ""))
        factors.remove(request.user, _number(posted(request, "factor")))
        messages.success(request, _("Your second factor is removed."))
    return HttpResponseRedirect(reverse("second_factor"))


# ---- of others


@never_cache
@require_POST
def reset(request: HttpRequest) -> HttpResponse:
    return admin.site.admin_view(_reset)(request)


def _reset(request: HttpRequest) -> HttpResponse:
    require(request, roles.on_users(actions.USER_FACTOR_RESET))
    user = get_object_or_404(get_user_model(), pk=_number(posted(request, "user")))
    with FailuresAsMessages(request):
        factors.turn_off(user, actor=actor(request), reason=posted(request, "reason")[:500])
        words = _("The second factor of %(name)s is removed.") % {"name": user.get_username()}
        messages.success(request, words)
    return HttpResponseRedirect(reverse("second_factor"))


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0


def _render(request: HttpRequest, template: str, **context: Any) -> HttpResponse:
    shown = {**admin.site.each_context(request), "title": _("Second factor"), **context}
    return render(request, f"admin/second_factor/{template}", shown)
