"""What operators decide about issues: the forms, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from django.http import HttpRequest
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from tools_app import governance
from tools_app.admin import links
from tools_app.admin.governed import actor, posted
from tools_app.models import ErrorGroup
from tools_app.sdk.errors import ValidationError

if TYPE_CHECKING:
    from django_stubs_ext import StrPromise

State = ErrorGroup.State
# Of a snooze, in hours.
SPANS: Final[dict[str, StrPromise]] = {
    "1": gettext_lazy("1 hour"),
    "4": gettext_lazy("4 hours"),
    "24": gettext_lazy("1 day"),
    "168": gettext_lazy("1 week"),
    "720": gettext_lazy("30 days"),
}


def _resolve(fingerprints: Sequence[str], request: HttpRequest) -> list[str]:
    return governance.resolve_errors(fingerprints, actor=actor(request), reason=posted(request, "reason"))


def _reopen(fingerprints: Sequence[str], request: HttpRequest) -> list[str]:
    return governance.reopen_errors(fingerprints, actor=actor(request), reason=posted(request, "reason"))


def _ignore(fingerprints: Sequence[str], request: HttpRequest) -> list[str]:
    text = posted(request, "occurrences")
    if text and not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValidationError(_("“Until as many more errors” must be a whole number, or empty"))
    occurrences = int(text) if text else None
    reason = posted(request, "reason")
    return governance.ignore_errors(fingerprints, actor=actor(request), reason=reason, occurrences=occurrences)


def _snooze(fingerprints: Sequence[str], request: HttpRequest) -> list[str]:
    hours = posted(request, "hours")
    if hours not in SPANS:
        raise ValidationError(_("Choose how long to snooze"))
    until = timezone.now() + timedelta(hours=int(hours))
    return governance.snooze_errors(fingerprints, until, actor=actor(request), reason=posted(request, "reason"))


def _assign(fingerprints: Sequence[str], request: HttpRequest) -> list[str]:
    user, reason = posted(request, "user") or None, posted(request, "reason")
    return governance.assign_errors(fingerprints, user, actor=actor(request), reason=reason)


@dataclass(frozen=True, slots=True)
class Decision:
    button: StrPromise
    decide: Callable[[Sequence[str], HttpRequest], list[str]]
    """Returns the issues that it changed."""
    state: StrPromise
    """That of issues which it changed."""
    text: StrPromise
    """What it does."""
    needs_reason: bool = False


DECISIONS: Final[dict[str, Decision]] = {
    "resolve": Decision(
        gettext_lazy("Resolve"),
        _resolve,
        gettext_lazy("resolved"),
        gettext_lazy("Resolved issues reopen if the error recurs."),
    ),
    "ignore": Decision(
        gettext_lazy("Ignore"),
        _ignore,
        gettext_lazy("ignored"),
        gettext_lazy("Ignored issues do not count as open and send no alerts. Their errors are still recorded."),
        needs_reason=True,
    ),
    "snooze": Decision(
        gettext_lazy("Snooze"),
        _snooze,
        gettext_lazy("snoozed"),
        gettext_lazy("Snoozed issues do not count as open and send no alerts. After that time they are open again."),
    ),
    "assign": Decision(
        gettext_lazy("Assign"),
        _assign,
        gettext_lazy("assigned"),
        gettext_lazy("Shows who takes care of an issue. Its state stays as it is."),
    ),
    "reopen": Decision(
        gettext_lazy("Reopen"),
        _reopen,
        gettext_lazy("open"),
        gettext_lazy("Reopened issues are listed as open again."),
    ),
}


def outcome(decision: Decision, changed: int, unchanged: int) -> str:
    """One or two sentences about what was changed."""
    message = _("Nothing changed.")
    if changed:
        message = _("%(groups)s: now %(state)s.") % {"groups": number_of(changed), "state": decision.state}
    if unchanged:
        before = ngettext("%(groups)s was already %(state)s.", "%(groups)s were already %(state)s.", unchanged)
        if decision is not DECISIONS["resolve"] and decision is not DECISIONS["reopen"]:
            # Others also leave out what is resolved.
            before = ngettext("%(groups)s stays as it is.", "%(groups)s stay as they are.", unchanged)
        message += " " + before % {"groups": number_of(unchanged), "state": decision.state}
    return message


def number_of(groups: int) -> str:
    return ngettext("%(number)s issue", "%(number)s issues", groups) % {"number": f"{groups:,}"}


def form_context(user: Any, group: ErrorGroup | None = None) -> dict[str, Any]:
    """What the fields of decisions show."""
    people = governance.assignees()
    names = [one.get_username() for one in people]
    current = group.assignee_name if group is not None else ""
    return {
        # One who may not resolve issues any more is shown, so that the form does not seem to assign another one.
        "assignees": names if not current or current in names else [current, *names],
        "assignee": current,
        "own_name": user.get_username() if user in people and user.get_username() != current else "",
        "snooze_spans": [(hours, words, hours == "24") for hours, words in SPANS.items()],
        "most_occurrences": governance.MOST_OCCURRENCES,
    }


# ---- what is shown of them


def state_mark(group: ErrorGroup) -> SafeString:
    state = group.state
    if state is State.OPEN:
        return links.mark("bad", _("open") if group.reopened_at is None else _("regressed"))
    words = {State.RESOLVED: _("resolved"), State.IGNORED: _("ignored"), State.SNOOZED: _("snoozed")}
    return links.mark("good" if state is State.RESOLVED else "quiet", words[state])


def state_details(group: ErrorGroup) -> str:
    """Since when, by whom, or until when."""
    state = group.state
    if state is State.RESOLVED and group.resolved_at is not None:
        return by(links.ago(group.resolved_at), group.resolved_by)
    if state is State.SNOOZED and group.muted_until is not None:
        return by(_("until %(time)s") % {"time": links.stamp(group.muted_until)}, group.muted_by)
    if state is State.IGNORED:
        until = _("for good")
        if group.muted_until_count is not None:
            left = group.muted_until_count - group.count
            until = ngettext("until %(n)s more error", "until %(n)s more errors", left) % {"n": f"{left:,}"}
        return by(until, group.muted_by)
    return _("since %(time)s") % {"time": links.stamp(group.reopened_at)} if group.reopened_at is not None else ""


def by(time: str, actor: str) -> str:
    return _("%(time)s by %(actor)s") % {"time": time, "actor": actor}
