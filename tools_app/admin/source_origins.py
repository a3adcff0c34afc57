"""Sources outside in the admin: added, tested, connected again, moved to another origin, removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_post_parameters

from tools_app import governance
from tools_app.access import actions
from tools_app.admin import links, phrases, source_trials
from tools_app.admin.governed import FailuresAsMessages, GovernedAdmin, actor, posted, require, sentences
from tools_app.admin.source_forms import AddForm, OriginForm, may_command
from tools_app.governance import SourceTest
from tools_app.models import ApiKey, Connection, Source, ToolRecord, Toolset
from tools_app.sdk.errors import ToolError
from tools_app.text import hygiene

MOST_NAMES: Final = 100
MOST_AFFECTED: Final = 50


class SourceOrigins(GovernedAdmin[Source]):
    posts: ClassVar = {
        "test": "<int:pk>/test/",
        "reconnect": "<int:pk>/reconnect/",
        "instructions": "<int:pk>/instructions/",
    }
    views: ClassVar = {"origin": "<int:pk>/origin/", "remove": "<int:pk>/remove/"}

    def has_add_permission(self, request: HttpRequest) -> bool:
        return actions.SOURCE_CREATE.permits(request.user)

    # -------------------------------------------------------------------------------------------------- adding

    @method_decorator(sensitive_post_parameters("password"))
    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        require(request, actions.SOURCE_CREATE)
        form = AddForm(request, data=request.POST if request.method == "POST" else None)
        if form.saved(lambda: governance.add_source(**form.values(), actor=form.actor)):
            name = form.cleaned_data["name"]
            self.message_user(
                request, _("%(name)s is added, and off. Test it next.") % {"name": name}, messages.SUCCESS
            )
            self._warn(request, form.values().get("command", ()))
            return HttpResponseRedirect(links.address("source", "named", name=name))
        return self._form(request, form, _("Add a source"), _("Add source"), links.address("source", "changelist"))

    @method_decorator(sensitive_post_parameters("password"))
    def origin_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """The form that changes what a connection to the source depends on."""
        require(request, actions.SOURCE_ORIGIN)
        source = self._outside(request, pk)
        address = links.address("source", "change", pk)
        form = OriginForm(request, source, data=request.POST if request.method == "POST" else None)
        changed: list[str] = []
        if form.saved(lambda: changed.extend(governance.change_origin(source.name, **form.values(), actor=form.actor))):
            if not changed:
                words = _("Nothing changed.")
            elif "epoch" in changed:
                words = _("%(name)s has a new origin. It is off, and all its tools wait for approval.")
            else:
                words = _("%(name)s saved. Applies from the next connection.")
            self.message_user(request, words % {"name": source.name}, messages.SUCCESS if changed else messages.INFO)
            self._warn(request, form.cleaned_data["command"] if "command" in changed else ())
            return HttpResponseRedirect(address)
        return self._form(
            request, form, _("Change the origin of %(name)s") % {"name": source.name}, _("Save"), address, source=source
        )

    def _form(
        self, request: HttpRequest, form: OriginForm, title: str, button: str, back: str, **context: Any
    ) -> HttpResponse:
        words = form.command_words()
        return self.page(
            request,
            "source/form.html",
            title,
            form=form,
            words=words,
            warnings=phrases.all_spoken(governance.command_warnings(words)) if words else [],
            may_command=may_command(request),
            button=button,
            cancel_address=back,
            **{"source": None, **context},
        )

    def _warn(self, request: HttpRequest, command: Sequence[str]) -> None:
        for warning in governance.command_warnings(command):
            self.message_user(request, phrases.spoken(warning), messages.WARNING)

    # ------------------------------------------------------------------------------------------------- testing

    def test_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Connect and list. The result is shown on a page of its own; nothing is recorded but the state."""
        require(request, actions.SOURCE_TEST)
        source = self._outside(request, pk)
        result, error, trial = None, "", None
        try:
            who = actor(request)
            trial = source_trials.run(
                "test", source.name, source.epoch, lambda: governance.test_source(source.name, actor=who)
            )
            result = trial.result
        except ToolError as problem:
            error = sentences(problem)
        return self.page(
            request,
            "source/test.html",
            _("Test of %(name)s") % {"name": source.name},
            source=source,
            result=result,
            **(_result(result) if result is not None else {}),
            error=error,
            waits=trial is not None and result is None and not error,
            seconds=trial.seconds if trial is not None else 0,
            test_address=links.address("source", "test", pk),
            address=links.address("source", "change", pk),
            origin_address=links.address("source", "origin", pk),
            may_change_origin=actions.SOURCE_ORIGIN.permits(request.user),
        )

    def reconnect_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        require(request, actions.SOURCE_RECONNECT)
        source = self._outside(request, pk)
        with FailuresAsMessages(request):
            governance.reconnect_source(source.name, actor=actor(request), reason=posted(request, "reason"))
            words = _("Connections to %(name)s closed. The hub reconnects and lists its tools again in a moment.")
            self.message_user(request, words % {"name": source.name}, messages.SUCCESS)
        return HttpResponseRedirect(links.address("source", "change", pk))

    def instructions_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Approve the instructions that the page showed, by their hash."""
        require(request, actions.SOURCE_INSTRUCTIONS)
        source = self._outside(request, pk)
        with FailuresAsMessages(request):
            governance.approve_instructions(
                source.name, posted(request, "hash"), actor=actor(request), reason=posted(request, "reason")
            )
            self.message_user(request, _("The instructions are sent to agents from now on."), messages.SUCCESS)
        return HttpResponseRedirect(f"{links.address('source', 'change', pk)}#instructions")

    # ------------------------------------------------------------------------------------------------ removing

    def remove_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask, then remove the source. The page names what is lost."""
        require(request, actions.SOURCE_REMOVE)
        source = self._outside(request, pk)
        back = links.address("source", "change", pk)
        if request.method != "POST":
            return self._ask_to_remove(request, source, back)
        with FailuresAsMessages(request):
            retired = governance.remove_source(source.name, actor=actor(request), reason=posted(request, "reason"))
            words = ngettext(
                "%(name)s is removed, with %(n)s tool.", "%(name)s is removed, with %(n)s tools.", len(retired)
            )
            self.message_user(request, words % {"name": source.name, "n": f"{len(retired):,}"}, messages.SUCCESS)
            return HttpResponseRedirect(links.address("source", "changelist"))
        return HttpResponseRedirect(back)

    def _ask_to_remove(self, request: HttpRequest, source: Source, back: str) -> HttpResponse:
        names = list(ToolRecord.objects.present().filter(source=source).order_by("name").values_list("name", flat=True))
        lost = set(names)
        toolsets = [
            toolset.name
            for toolset in Toolset.objects.order_by("name")
            if source.name in toolset.packs or not lost.isdisjoint(toolset.names)
        ]
        keys = ApiKey.objects.filter(revoked_at=None).filter(toolsets__name__in=toolsets) | ApiKey.objects.filter(
            revoked_at=None, connections__pack=source.name
        )
        affected = [
            (_("Toolsets that select them"), toolsets),
            (_("API keys with these toolsets or its connections"), sorted(set(keys.values_list("name", flat=True)))),
            (_("Connections of the source"), list(_connections(source))),
        ]
        return self.page(
            request,
            "source/remove.html",
            _("Remove %(name)s") % {"name": source.name},
            text=_(
                "Calls of its tools are refused from now on, open approvals are rejected, and its connections and "
                "processes end. The journal is kept. The name cannot be used again. This cannot be undone."
            ),
            names=names[:MOST_NAMES],
            more=max(0, len(names) - MOST_NAMES),
            affected=[(title, found[:MOST_AFFECTED]) for title, found in affected if found],
            address=links.address("source", "remove", source.pk),
            button=_("Remove %(name)s") % {"name": source.name},
            cancel_address=back,
        )

    def _outside(self, request: HttpRequest, pk: int) -> Source:
        sources = self.get_queryset(request).select_related("status", "connection")
        return get_object_or_404(sources, pk=pk, kind__in=Source.OUTSIDE)


def _connections(source: Source) -> Any:
    return Connection.objects.filter(pack=source.name).order_by("name").values_list("name", flat=True)


def _result(result: SourceTest) -> dict[str, Any]:
    """What a test shows; names and texts come from the server."""
    facts = [
        (_("Server"), result.server),
        (_("Protocol version"), result.era),
        (_("Duration"), f"{result.seconds:.1f} s"),
        (_("Tools"), f"{len(result.tools):,}"),
        (_("Tokens when listed"), f"{result.tokens:,}"),
        (_("Resources"), f"{result.resources:,}" if result.resources else ""),
        (_("Prompts"), f"{result.prompts:,}" if result.prompts else ""),
    ]
    return {
        "result_facts": [(title, text) for title, text in facts if text],
        "result_problems": phrases.all_spoken(result.problems[:MOST_NAMES]),
        "result_findings": phrases.all_spoken(result.findings[:MOST_NAMES]),
        "result_clients": phrases.all_spoken(result.clients[:MOST_NAMES]),
        "more_clients": max(0, len(result.clients) - MOST_NAMES),
        "result_tools": result.tools[:MOST_NAMES],
        # As agents would receive it.
        "result_instructions": hygiene.cleaned(result.instructions),
        "more_tools": max(0, len(result.tools) - MOST_NAMES),
    }
