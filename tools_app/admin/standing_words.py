"""What a standing approval covers, in words; and the form that says what the next one is to cover."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app.admin import links
from tools_app.governance import disclosure
from tools_app.models import Approval, StandingApproval
from tools_app.sdk.errors import Problem, ValidationError
from tools_app.text import hygiene

# Arguments that the form has a row for, and characters of a value in a sentence.
MOST_ARGUMENTS: Final = 50
MOST_OF_VALUE: Final = 200
SAME, ANY, ONE_OF, RANGE = "same", "any", "enum", "range"
LASTING: Final = {
    3_600: gettext_lazy("1 hour"),
    28_800: gettext_lazy("8 hours"),
    86_400: gettext_lazy("1 day"),
    604_800: gettext_lazy("7 days"),
    2_592_000: gettext_lazy("30 days"),
    7_776_000: gettext_lazy("90 days"),
}


@dataclass(frozen=True, slots=True)
class FormRow:
    """One argument of the call, in the form."""

    number: int
    name: str
    value: str
    is_number: bool


def form_rows(approval: Approval) -> list[FormRow] | None:
    """None if there are too many, or if they cannot be read."""
    arguments, disclosed = approval.call_arguments(), disclosure.of_approval(approval)
    if disclosed is None or len(arguments) > MOST_ARGUMENTS:
        return None
    return [
        FormRow(number, name, _written(disclosed.arguments[name]), _is_number(value))
        for number, (name, value) in enumerate(arguments.items())
    ]


def posted_terms(request: HttpRequest, approval: Approval) -> dict[str, Any]:
    """What `grant_standing` takes, from the form.

    Raises: ValidationError.
    """
    free, limits = [], {}
    for number, (name, value) in enumerate((approval.call_arguments() or {}).items()):
        match request.POST.get(f"how{number}", SAME):
            case "any":
                free.append(name)
            case "enum":
                lines = request.POST.get(f"values{number}", "").splitlines()
                values = [value_of(name, line.strip(), value) for line in lines if line.strip()]
                limits[name] = {"enum": values}
            case "range":
                bounds = {bound: request.POST.get(f"{bound}{number}", "").strip() for bound in ("minimum", "maximum")}
                limits[name] = {bound: value_of(name, text, 0) for bound, text in bounds.items() if text}
    uses, seconds = (_whole(request, name) for name in ("uses", "seconds"))
    return {"free": free, "limits": limits, "uses": uses, "lasts": timedelta(seconds=seconds)}


def sentence(standing: StandingApproval) -> str:
    """All that a standing approval covers."""
    values = {
        "uses": f"{standing.uses:,}",
        "tool": standing.tool_name,
        "caller": f"{standing.caller_name} ({standing.caller_kind})",
        "until": links.exact(standing.expires_at),
    }
    text = _("Covers %(uses)s calls of %(tool)s by %(caller)s, until %(until)s:") % values
    return f"{text} {'; '.join(conditions(standing))}."


def conditions(standing: StandingApproval, most: int = MOST_OF_VALUE) -> list[str]:
    """One for each argument; values with at most this many characters."""
    coverage = disclosure.of_standing(standing)
    if coverage is None:
        return [_("cannot be read: its encryption key is missing, so it covers nothing")]
    return list(_conditions(coverage, most)) or [_("calls without arguments")]


def _conditions(coverage: disclosure.Coverage, most: int) -> Iterator[str]:
    for name, value in coverage.same.items():
        yield _("%(name)s is %(value)s") % {"name": _name(name), "value": _short(value, most)}
    for name, limit in coverage.limits.items():
        yield _limit(_name(name), limit, most)
    for name in coverage.free:
        yield _("%(name)s is any value") % {"name": _name(name)}


def _limit(name: str, limit: Mapping[str, Any], most: int) -> str:
    if "enum" in limit:
        values = ", ".join(_short(value, most) for value in limit["enum"])
        return _("%(name)s is one of: %(values)s") % {"name": name, "values": values}
    parts = {"name": name, "minimum": limit.get("minimum"), "maximum": limit.get("maximum")}
    if "maximum" not in limit:
        return _("%(name)s is at least %(minimum)s") % parts
    if "minimum" not in limit:
        return _("%(name)s is at most %(maximum)s") % parts
    return _("%(name)s is from %(minimum)s to %(maximum)s") % parts


def _written(value: Any) -> str:
    return hygiene.written_out(json.dumps(value, ensure_ascii=False))


def _name(name: str) -> str:
    return hygiene.written_out(name)


def _short(value: Any, most: int) -> str:
    text = _written(value)
    return text if len(text) <= most else f"{text[:most]}…"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def value_of(name: str, text: str, like: Any) -> Any:
    """Raises: ValidationError: it is no JSON. Values beside a text are texts, without quotation marks."""
    if isinstance(like, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ValidationError(problems=[Problem("", f"{name}: this is not a value in JSON")]) from None


def _whole(request: HttpRequest, name: str) -> int:
    text = request.POST.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
