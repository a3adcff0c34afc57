"""The form of an alert rule. `governance` creates and changes the rule; the form never saves."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from django import forms
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy

from tools_app.admin import theme
from tools_app.admin.toolset_form import Choices
from tools_app.alerts import words
from tools_app.governance.alert_rules import PLACEHOLDERS, SLACK
from tools_app.models import AlertRule

STANDARD, OWN = "standard", "own"
# The shipped bodies, and any other.
FORMATS: Final = {
    STANDARD: gettext_lazy("JSON of the hub"),
    "slack": gettext_lazy("Slack, Mattermost, Rocket.Chat"),
    OWN: gettext_lazy("Own template, below"),
}
_LINES: Final = ("recipients", "tools", "sources", "callers")


def _lines(label: Any, help_text: Any) -> forms.CharField:
    return forms.CharField(label=label, help_text=help_text, required=False, widget=theme.Textarea(attrs={"rows": 2}))


class AlertRuleForm(forms.ModelForm):  # type: ignore[type-arg]  # it takes none when it runs
    url = forms.CharField(
        label=gettext_lazy("URL"),
        required=False,
        max_length=2_000,
        widget=theme.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("Where a webhook is sent. Write-only, since it is a secret at many services."),
    )
    secret = forms.CharField(
        label=gettext_lazy("Secret"),
        required=False,
        max_length=200,
        widget=theme.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("Signs webhooks. Empty for a new rule: one is generated and shown once."),
    )
    events = forms.MultipleChoiceField(
        label=gettext_lazy("Events"),
        choices=lambda: [(event.value, capfirst(str(label))) for event, label in words.EVENTS.items()],
        required=False,
        widget=Choices,
        help_text=gettext_lazy("None selected = all events."),
    )
    recipients = _lines(gettext_lazy("Recipients"), gettext_lazy("E-mail addresses, one per line."))
    tools = _lines(gettext_lazy("Tools"), gettext_lazy("Names, one per line. Empty: all alerts."))
    sources = _lines(gettext_lazy("Sources"), gettext_lazy("Names, one per line. Empty: all alerts."))
    callers = _lines(gettext_lazy("Callers"), gettext_lazy("Names or ids, one per line. Empty: all alerts."))
    format = forms.ChoiceField(
        label=gettext_lazy("Body"), choices=list(FORMATS.items()), initial=STANDARD, widget=theme.RadioSelect
    )
    template = forms.CharField(
        label=gettext_lazy("Own template"),
        required=False,
        widget=theme.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("A JSON object. These are replaced in its texts:")
        + f" {' '.join(f'{{{name}}}' for name in sorted(PLACEHOLDERS))}",
    )

    class Meta:
        model = AlertRule
        fields = (
            "name", "enabled", "owner", "channel", "internal", "severity", "error_rate", "per_minute", "payloads",
        )  # fmt: skip
        widgets: ClassVar = {"channel": theme.RadioSelect}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "owner" in self.fields:
            # Without links to add and change users, who have pages of their own.
            owner: Any = self.fields["owner"]
            owner.widget = getattr(owner.widget, "widget", owner.widget)
            owner.widget.choices = owner.choices
        if self.instance.pk is None:
            return
        stored = gettext_lazy("Stored. Empty: keep it.")
        for name in ("url", "secret"):
            if name in self.fields and self.instance.sealed:
                self.fields[name].help_text = stored
        template = self.instance.template
        initial = {
            "events": self.instance.events,
            **{name: "\n".join(getattr(self.instance, name)) for name in _LINES},
            "format": STANDARD if not template else "slack" if template == SLACK else OWN,
            "template": template if template != SLACK else "",
        }
        self.initial.update(initial)

    def parts(self) -> dict[str, Any]:
        """What the form says, as `governance` takes it."""
        data = self.cleaned_data
        templates = {STANDARD: "", "slack": SLACK, OWN: data["template"]}
        columns = ("enabled", "channel", "internal", "severity", "error_rate", "per_minute", "payloads", "events")
        return {
            **{name: data[name] for name in columns},
            **{name: [line for line in map(str.strip, data[name].splitlines()) if line] for name in _LINES},
            "owner": data["owner"].get_username() if data["owner"] is not None else None,
            "template": templates[data["format"]],
        }
