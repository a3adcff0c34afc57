"""What a new key is asked for."""

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

# How it is asked for and shown, and what that is in the columns `may_write` and `may_destroy`.
KINDS: Final = {
    "all": (gettext_lazy("All kinds"), True, True),
    "write": (gettext_lazy("Tools that read or write, and destroy nothing"), True, False),
    "read": (gettext_lazy("Only tools that read"), False, False),
}


class KeyForm(forms.ModelForm):  # type: ignore[type-arg]  # it takes none when it runs
    """What a new key is asked for. `governance` makes the key; the form never saves."""

    scopes = forms.MultipleChoiceField(
        label=gettext_lazy("Scopes"),
        choices=[(scope, format_lazy("{} – {}", scope, SCOPE_WORDS[scope])) for scope in governance.SCOPES],
        initial=default_scopes,
        widget=theme.CheckboxSelectMultiple,
        help_text=gettext_lazy("What whoever holds the key may do. Fewer is safer."),
    )
    toolsets = forms.ModelMultipleChoiceField(
        label=gettext_lazy("Toolsets"),
        queryset=Toolset.objects.all(),
        required=False,
        widget=theme.CheckboxSelectMultiple,
        help_text=gettext_lazy("Outside of these, no tool exists for the key. None: every tool there is."),
    )
    connections = forms.MultipleChoiceField(
        label=gettext_lazy("Connections"),
        choices=lambda: list(_connections()),
        initial=[ENVIRONMENT],
        required=False,
        widget=theme.CheckboxSelectMultiple,
        help_text=gettext_lazy("The accounts at upstreams that its calls may use, and no others."),
    )
    kinds = forms.ChoiceField(
        label=gettext_lazy("Kinds"),
        choices=[(kind, words) for kind, (words, *_kinds) in KINDS.items()],
        initial="all",
        widget=theme.RadioSelect,
        help_text=gettext_lazy("What a tool says of itself counts. One that says nothing may destroy."),
    )
    last_day = forms.DateField(
        required=False,
        widget=theme.DateInput,
        label=gettext_lazy("Last day"),
        help_text=gettext_lazy("The key works until the end of this day (UTC). Empty: until it is revoked."),
    )

    class Meta:
        model = ApiKey
        fields = ("name", "scopes", "asks", "rate_calls", "rate_seconds")

    def clean_last_day(self) -> date | None:
        day: date | None = self.cleaned_data["last_day"]
        if day is not None and day < timezone.now().date():
            raise forms.ValidationError(_("That day is over."))
        if day is not None and day.year > LAST_YEAR:
            raise forms.ValidationError(_("At most until the end of %(year)s.") % {"year": LAST_YEAR})
        return day

    def clean_name(self) -> str:
        return str(self.cleaned_data["name"]).strip()


def _connections() -> Iterator[tuple[str, str]]:
    yield ENVIRONMENT, f"{ENVIRONMENT} – {_('what the hub was started with')}"
    for name, pack in Connection.objects.order_by("pack", "name").values_list("name", "pack"):
        yield name, f"{name} – {pack}"
