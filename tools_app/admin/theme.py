"""The theme of the admin: the only module that imports the theme's package.

To the type checker everything here is Django's own, so taking the theme away changes this file and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin
    from django.contrib.admin.views.main import ChangeList
    from django.forms import CheckboxInput as Switch
    from django.forms import CheckboxSelectMultiple, DateInput, PasswordInput, RadioSelect, Select, Textarea, TextInput
else:
    import unfold.admin
    from unfold.views import ChangeList
    from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget as CheckboxSelectMultiple
    from unfold.widgets import UnfoldAdminPasswordWidget as PasswordInput
    from unfold.widgets import UnfoldAdminRadioSelectWidget as RadioSelect
    from unfold.widgets import UnfoldAdminSelectWidget as Select
    from unfold.widgets import UnfoldAdminTextareaWidget as Textarea
    from unfold.widgets import UnfoldAdminTextInputWidget as TextInput
    from unfold.widgets import UnfoldBooleanSwitchWidget as Switch

    class ModelAdmin(unfold.admin.ModelAdmin):
        def __class_getitem__(cls, model: Any) -> type[ModelAdmin]:
            """`ModelAdmin[Model]` is for the type checker only."""
            return cls

    class DateInput(TextInput):
        """The browser's own date picker: it works without a script."""

        input_type = "date"

        def format_value(self, value: Any) -> str | None:
            return value.isoformat() if hasattr(value, "isoformat") else value


__all__ = [
    "ChangeList",
    "CheckboxSelectMultiple",
    "DateInput",
    "ModelAdmin",
    "PasswordInput",
    "RadioSelect",
    "Select",
    "Switch",
    "TextInput",
    "Textarea",
]
