"""The form of a toolset: its choices, each with its number of tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, cast

from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from tools_app import governance
from tools_app.admin.many_tools import count_of_tools
from tools_app.catalog import catalog
from tools_app.catalog.entry import Entry
from tools_app.models import Toolset
from tools_app.sdk.names import folded
from tools_app.sdk.reach import Detail, Mode

# Submitted by the preview button, which saves nothing.
PREVIEW: Final = "_preview"


class Choices(forms.CheckboxSelectMultiple):
    """Checkboxes in columns, light enough for thousands of tools."""

    template_name = "tools_app/choices.html"


class NamesField(forms.MultipleChoiceField):
    """Existing names; names that were chosen before and no longer exist stay selected until deselected."""

    widget = Choices

    def validate(self, value: list[str]) -> None:
        """`governance` validates the names."""


class ToolsetForm(forms.ModelForm):  # type: ignore[type-arg]  # it takes none when it runs
    packs = NamesField(required=False, label=_lazy("Sources"), help_text=_lazy("All tools of these sources."))
    categories = NamesField(
        required=False, label=_lazy("Categories"), help_text=_lazy("All tools in these categories.")
    )
    tags = NamesField(
        required=False, label=_lazy("Tags"), help_text=_lazy("All tools with at least one of these tags.")
    )
    names = NamesField(required=False, label=_lazy("Tools"), help_text=_lazy("Individual tools."))

    class Meta:
        model = Toolset
        fields = ("name", *governance.TOOLSET)
        labels: ClassVar = {
            "mode": _lazy("Listing mode"),
            "detail": _lazy("Detail of listed tools"),
            "overrides": _lazy("Renamed tools (JSON)"),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        there = catalog.current().all
        for part in governance.SELECTORS:
            if part in self.fields:
                field = cast(NamesField, self.fields[part])
                field.choices = list(choices(part, there, self._selected_names(part)))

    def is_valid(self) -> bool:
        """A preview is never saved."""
        return PREVIEW not in self.data and super().is_valid()

    def clean_overrides(self) -> Any:
        return self.cleaned_data["overrides"] or {}

    def unsaved_toolset(self) -> Toolset:
        """The form's current values as an unsaved toolset."""
        selectors: Mapping[str, Any] = {part: self._selected_names(part) for part in governance.SELECTORS}
        read_only = bool(self["read_only"].value()) if "read_only" in self.fields else self.instance.read_only
        mode, detail = (
            self[part].value() if part in self.fields else getattr(self.instance, part) for part in ("mode", "detail")
        )
        return Toolset(
            **selectors,
            name=self.instance.name,
            read_only=read_only,
            mode=mode if mode in list(Mode) else "",
            detail=detail if detail in list(Detail) else "",
            overrides=self.instance.overrides,
        )

    def _selected_names(self, part: str) -> list[str]:
        value = self[part].value() if part in self.fields else getattr(self.instance, part)
        return [name for name in value or () if isinstance(name, str)]


def choices(part: str, there: Iterable[Entry], chosen_names: Iterable[str]) -> list[tuple[str, str]]:
    """Choices as names with labels; selected names that match no tool come last."""
    if part == "names":
        labels = {entry.name: f"{entry.name} – {entry.title}" if entry.title else entry.name for entry in there}
        canonical = {folded(name) for name in labels}
        idle = [name for name in chosen_names if name not in labels and folded(name) not in canonical]
        # `a-b` and `a_b` name the same tool: it matches, and keeps its own checkbox.
        labels |= {name: name for name in chosen_names if name not in labels and folded(name) in canonical}
    else:
        tool_counts = _tool_counts(part, there)
        labels = {name: f"{name} – {count_of_tools(number)}" for name, number in sorted(tool_counts.items())}
        idle = [name for name in chosen_names if name not in labels]
    return [*labels.items(), *((name, f"{name} – {_('matches no tool')}") for name in dict.fromkeys(idle))]


def _tool_counts(part: str, there: Iterable[Entry]) -> Counter[str]:
    match part:
        case "packs":
            return Counter(entry.pack for entry in there if entry.pack)
        case "categories":
            return Counter(entry.category for entry in there if entry.category)
    return Counter(tag for entry in there for tag in entry.tags)
