"""The form of a new API key."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Final

from django import forms
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from tools_app import governance
from tools_app.admin import theme
from tools_app.admin.key_words import SCOPE_WORDS
from tools_app.models import ApiKey, Connection, Toolset
from tools_app.models.keys import default_scopes
from tools_app.sdk.reach import ENVIRONMENT

LAST_YEAR: Final = 9998

# Choices of the access level, and their values of `may_write` and `may_destroy`.
KINDS: Final = {
    "all": (gettext_lazy("Read, write and destructive"), True, True),
    "write": (gettext_lazy("Read and write, not destructive"), True, False),
    "read": (gettext_lazy("Read-only"), False, False),
}


class KeyForm(forms.ModelForm):  # type: ignore[type-arg]  # it takes none when it runs
    """The form of a new key. `governance` creates the key; the form never saves."""

    scopes = forms.MultipleChoiceField(
        label=gettext_lazy("Scopes"),
        choices=[(scope, format_lazy("{} – {}", scope, SCOPE_WORDS[scope])) for scope in governance.SCOPES],
        initial=default_scopes,
        widget=theme.CheckboxSelectMultiple,
        help_text=gettext_lazy("Grant only what this client needs."),
    )
    toolsets = forms.ModelMultipleChoiceField(
        label=gettext_lazy("Toolsets"),
        queryset=Toolset.objects.all(),
        required=False,
        widget=theme.CheckboxSelectMultiple,
        help_text=gettext_lazy(
            "Restricts the key to these toolsets. None selected = all tools except those of outside sources."
        ),
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
        initial="all",
        widget=theme.RadioSelect,
        help_text=gettext_lazy("Based on each tool’s declared hints. Tools without hints count as destructive."),
    )
    last_day = forms.DateField(
        required=False,
        widget=theme.DateInput,
        label=gettext_lazy("Expires on"),
        help_text=gettext_lazy("Expires at the end of this day (UTC). Empty = never."),
    )

    class Meta:
        model = ApiKey
        fields = ("name", "scopes", "asks", "rate_calls", "rate_seconds")

    def clean_last_day(self) -> date | None:
        day: date | None = self.cleaned_data["last_day"]
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
