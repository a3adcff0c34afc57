"""The form of an API key: a new one, and one that is changed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, timedelta
from typing import Any, Final

from django import forms
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app import governance
from tools_app.access import addresses
from tools_app.admin import theme
from tools_app.admin.key_words import SCOPE_WORDS
from tools_app.models import ApiKey, Connection, Toolset
from tools_app.models.keys import after, default_scopes
from tools_app.sdk import budgets
from tools_app.sdk.errors import ToolError
from tools_app.sdk.reach import ENVIRONMENT

LAST_YEAR: Final = 9998
# What the form of a new key proposes.
USUAL_DAYS: Final = 90

# Choices of the access level, and their values of `may_write` and `may_destroy`.
KINDS: Final = {
    "all": (gettext_lazy("Read, write and destructive"), True, True),
    "write": (gettext_lazy("Read and write, not destructive"), True, False),
    "read": (gettext_lazy("Read-only"), False, False),
}


class KeyForm(forms.ModelForm):  # type: ignore[type-arg]  # it takes none when it runs
    """`governance` creates and changes the key; the form never saves."""

    scopes = forms.MultipleChoiceField(
        label=gettext_lazy("Scopes"),
        choices=[(scope, format_lazy("{} – {}", scope, SCOPE_WORDS[scope])) for scope in governance.SCOPES],
        initial=default_scopes,
        widget=theme.CheckboxSelectMultiple,
        help_text=gettext_lazy("Grant only what this client needs."),
    )
    tools = forms.ChoiceField(
        label=gettext_lazy("Tools"),
        choices=[
            ("all", gettext_lazy("All tools of the hub, also future ones, but no tools of outside sources")),
            ("some", gettext_lazy("Only these toolsets")),
        ],
        widget=theme.RadioSelect,
    )
    toolsets = forms.ModelMultipleChoiceField(
        label=gettext_lazy("Toolsets"),
        queryset=Toolset.objects.all(),
        required=False,
        widget=theme.CheckboxSelectMultiple,
        help_text=gettext_lazy("Other tools do not exist for the key."),
    )
    connections = forms.MultipleChoiceField(
        label=gettext_lazy("Connections"),
        choices=lambda: list(connection_choices()),
        initial=[ENVIRONMENT],
        required=False,
        widget=theme.CheckboxSelectMultiple,
        help_text=gettext_lazy("Upstream accounts this key may use."),
    )
    kinds = forms.ChoiceField(
        label=gettext_lazy("Access level"),
        choices=[(kind, words) for kind, (words, *_kinds) in KINDS.items()],
        initial="read",
        widget=theme.RadioSelect,
        help_text=gettext_lazy("Based on each tool’s declared hints. Tools without hints count as destructive."),
    )
    last_day = forms.DateField(
        required=False,
        initial=lambda: timezone.now().date() + timedelta(days=USUAL_DAYS),
        widget=theme.DateInput,
        label=gettext_lazy("Expires on"),
        help_text=gettext_lazy("Expires at the end of this day (UTC). Empty = never."),
    )

    addresses = forms.CharField(
        label=gettext_lazy("Allowed addresses"),
        required=False,
        widget=theme.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("IP addresses and networks, one per line, like 192.0.2.7 or 10.0.0.0/8. Empty = any."),
    )

    class Meta:
        model = ApiKey
        fields = ("name", "scopes", "asks", "rate_calls", "rate_seconds", *budgets.PARTS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        key = self.instance
        if key.pk is None:
            return
        toolsets = [toolset.pk for toolset in key.toolsets.all()]
        may = (key.may_write, key.may_destroy)
        rights = {
            "tools": "some" if toolsets else "all",
            "toolsets": toolsets,
            "connections": key.connection_names,
            "kinds": next(kind for kind, (_words, *columns) in KINDS.items() if tuple(columns) == may),
            "addresses": "\n".join(key.addresses),
            "last_day": key.expires_at and (key.expires_at - timedelta(microseconds=1)).astimezone(UTC).date(),
        }
        self.initial.update(rights)

    def rights(self) -> governance.KeyChanges:
        """What the form says, as `governance` takes it."""
        data = self.cleaned_data
        _words, may_write, may_destroy = KINDS[data["kinds"]]
        calls, seconds = data["rate_calls"], data["rate_seconds"]
        rights = governance.KeyChanges(
            scopes=data["scopes"],
            toolsets=[toolset.name for toolset in data["toolsets"]] or None,
            connections=data["connections"],
            may_write=may_write,
            may_destroy=may_destroy,
            asks=data["asks"],
            rate=None if None in (calls, seconds) else (calls, seconds),
            budget=budgets.Budget(**{part: data[part] for part in budgets.PARTS}),
            addresses=data["addresses"],
        )
        # A key can end within a day, which the form does not show; that stays unless another day is entered.
        if self.instance.pk is None or "last_day" in self.changed_data:
            rights["expires_at"] = data["last_day"] and after(data["last_day"])
        return rights

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        tools, toolsets = data.get("tools"), data.get("toolsets")
        if tools == "some" and toolsets is not None and not toolsets:
            self.add_error("toolsets", _("Select at least one toolset, or choose all tools."))
        if tools == "all" and toolsets:
            self.add_error("toolsets", _("Select none, or choose “Only these toolsets”."))
        return data

    def clean_addresses(self) -> list[str]:
        try:
            return addresses.normalized(self.cleaned_data["addresses"].split())
        except ToolError as error:
            raise forms.ValidationError(error.message) from error

    def clean_last_day(self) -> date | None:
        day: date | None = self.cleaned_data["last_day"]
        if "last_day" not in self.changed_data and self.instance.pk is not None:
            return day
        if day is not None and day < timezone.now().date():
            raise forms.ValidationError(_("This day has passed."))
        if day is not None and day.year > LAST_YEAR:
            raise forms.ValidationError(_("Must not be after %(year)s.") % {"year": LAST_YEAR})
        return day

    def clean_name(self) -> str:
        return str(self.cleaned_data["name"]).strip()


def connection_choices() -> Iterator[tuple[str, str]]:
    """The connections that a key can have, each with a label."""
    yield ENVIRONMENT, f"{ENVIRONMENT} – {_('default (from environment variables)')}"
    for name, pack in Connection.objects.order_by("pack", "name").values_list("name", "pack"):
        yield name, f"{name} – {pack}"
