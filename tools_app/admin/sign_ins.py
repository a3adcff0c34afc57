"""Sign-ins of connections in the admin: the way to the authorization server, and back."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links
from tools_app.admin.governed import FailuresAsMessages, GovernedAdmin, actor, posted, require
from tools_app.catalog import sign_ins
from tools_app.catalog.sign_ins import SignInState
from tools_app.models import ApiKey, Connection
from tools_app.sdk.accounts import PER_USER

MOST_SHOWN: Final = 100
_MARKS: Final = {
    "signed_in": ("good", gettext_lazy("signed in")),
    "sign_in_required": ("bad", gettext_lazy("sign-in required")),
    "failing": ("bad", gettext_lazy("failing")),
    "not_used": ("quiet", gettext_lazy("not used yet")),
}


class SignInAdmin(GovernedAdmin[Connection]):
    """The views of sign-ins, for the admin of connections."""

    def sign_in_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """A page with the link to the authorization server: a form may not send the browser to another site."""
        require(request, actions.CONNECTION_SIGN_IN)
        connection = get_object_or_404(Connection, pk=pk)
        caller = posted(request, "other_caller").strip() or posted(request, "caller")
        caller = f"user:{request.user.pk}" if caller == "me" else caller
        with FailuresAsMessages(request):
            url = governance.begin_sign_in(
                connection.name, browser=_browser(request), actor=actor(request), caller=caller
            )
            title = _("Sign in to %(name)s") % {"name": connection.name}
            page = self.page(
                request,
                "connection/sign_in.html",
                title,
                connection=connection,
                authorization_url=url,
                host=urlsplit(url).netloc,
                address=links.address("connection", "change", pk),
            )
            # The address of the next page is a secret of this session.
            page["Cache-Control"] = "no-store"
            return page
        return HttpResponseRedirect(links.address("connection", "change", pk))

    def signed_in_view(self, request: HttpRequest) -> HttpResponse:
        """Where the authorization server sends the browser back to."""
        require(request, actions.CONNECTION_SIGN_IN)
        if request.method != "GET":
            return HttpResponseNotAllowed(["GET"])
        names = {"state": "state", "code": "code", "issuer": "iss", "error": "error"}
        redirect = governance.Redirect(**{part: request.GET.get(name, "") for part, name in names.items()})
        with FailuresAsMessages(request):
            name = governance.finish_sign_in(redirect, browser=_browser(request), actor=actor(request))
            self.message_user(request, _("%(name)s is signed in. Test it now.") % {"name": name}, messages.SUCCESS)
            pk = Connection.objects.get(name=name).pk
            return HttpResponseRedirect(links.address("connection", "change", pk))
        return HttpResponseRedirect(links.address("connection", "changelist"))

    def sign_out_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.CONNECTION_SIGN_OUT)
        connection = get_object_or_404(Connection, pk=pk)
        with FailuresAsMessages(request):
            callers = governance.sign_out(connection.name, actor=actor(request))
            words = _("The tokens of %(name)s are deleted.") if callers else _("%(name)s has no tokens.")
            self.message_user(request, words % {"name": connection.name}, messages.SUCCESS)
        return HttpResponseRedirect(links.address("connection", "change", pk))


def context_of(request: HttpRequest, connection: Connection) -> dict[str, Any]:
    """What the page of a connection shows of its tokens."""
    state = sign_ins.state_of(connection)
    if state is None:
        return {}
    is_per_user = connection.options.get(PER_USER) is True
    others = [one for one in sign_ins.states_of(connection) if one.caller][:MOST_SHOWN]
    return {
        "sign_in": _shown(state),
        "sign_ins_of_callers": [_shown(one) for one in others],
        "may_sign_in": connection.form == Connection.Form.OAUTH and actions.CONNECTION_SIGN_IN.permits(request.user),
        "may_sign_out": actions.CONNECTION_SIGN_OUT.permits(request.user),
        "callers": [(f"key:{one.pk}", one.name) for one in connection.keys.order_by("name")] if is_per_user else None,
    }


def _shown(state: SignInState) -> dict[str, Any]:
    return {
        "mark": mark(state),
        "caller": _caller(state.caller),
        "issuer": state.issuer,
        "scopes": state.scopes,
        "expires": links.when(state.expires_at) if state.expires_at is not None else "",
        "by": state.signed_in_by,
        "at": links.when(state.signed_in_at) if state.signed_in_at is not None else "",
        "error": state.error,
    }


def mark(state: SignInState) -> SafeString:
    kind, words = _MARKS[state.state]
    return links.mark(kind, str(words))


def _caller(caller: str) -> str:
    kind, _separator, number = caller.partition(":")
    if kind == "key" and (key := ApiKey.objects.filter(pk=int(number)).first()) is not None:
        return key.name
    return caller


def _browser(request: HttpRequest) -> governance.Browser:
    return governance.browser(request.session.session_key or "", request.build_absolute_uri("/"))
