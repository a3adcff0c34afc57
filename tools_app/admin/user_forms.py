"""Forms of users: who they are, their role, the password that they choose, and permissions beside the roles."""

from __future__ import annotations

from typing import Any, ClassVar, Final, cast

from django import forms
from django.contrib.auth.models import Group, Permission, User
from django.utils.translation import gettext_lazy

from tools_app import governance
from tools_app.admin import theme

ROLE_WORDS: Final = {
    "": gettext_lazy("No access – cannot sign in to the admin"),
    "viewer": gettext_lazy("Viewer – sees tools, calls without payloads, issues and the audit trail"),
    "operator": gettext_lazy("Operator – also switches tools and sources, approves calls and resolves issues"),
    "admin": gettext_lazy("Admin – also manages API keys, toolsets, connections and users, and sees payloads"),
    "superuser": gettext_lazy("Superuser – everything, also the settings in force and other superusers"),
    "custom": gettext_lazy("Custom – keeps the groups and permissions listed below"),
}
ROLE_NAMES: Final = {
    "": gettext_lazy("no access"),
    "viewer": gettext_lazy("viewer"),
    "operator": gettext_lazy("operator"),
    "admin": gettext_lazy("admin"),
    "superuser": gettext_lazy("superuser"),
    "custom": gettext_lazy("custom"),
}


class UserForm(forms.ModelForm):  # type: ignore[type-arg]  # it takes none when it runs
    """`governance` creates and changes the user; the form never saves."""

    role = forms.ChoiceField(
        label=gettext_lazy("Role"),
        required=False,
        widget=theme.RadioSelect,
        help_text=gettext_lazy("Each role has the permissions of those above it."),
    )

    # Set by the page, for its user.
    may_make_superusers: ClassVar = False

    class Meta:
        model = User
        fields = ("username", "email")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        role = governance.role_of(self.instance) if self.instance.pk else "operator"
        offered = [one for one in governance.ALL_ROLES if one != "superuser" or self.may_make_superusers or role == one]
        if role not in offered:
            offered.append(role)
        cast(forms.ChoiceField, self.fields["role"]).choices = [(one, ROLE_WORDS[one]) for one in offered]
        self.fields["username"].help_text = gettext_lazy("Letters, digits and @ . + - _ only.")
        self.fields["email"].help_text = gettext_lazy("Optional. The hub sends no mail; it shows who the person is.")
        self.initial["role"] = role


class PermissionsForm(forms.Form):
    groups = forms.ModelMultipleChoiceField(
        label=gettext_lazy("Groups"),
        queryset=Group.objects.order_by("name"),
        required=False,
        widget=theme.CheckboxSelectMultiple,
        help_text=gettext_lazy("Groups of your own, beside the three roles of the hub."),
    )
    permissions = forms.ModelMultipleChoiceField(
        label=gettext_lazy("Single permissions"),
        queryset=Permission.objects.select_related("content_type").order_by("content_type__app_label", "codename"),
        required=False,
        widget=forms.SelectMultiple(attrs={"size": 14, "class": "hub-input"}),
        help_text=gettext_lazy("Hold Ctrl or ⌘ to select several."),
    )


class PasswordForm(forms.Form):
    """What the holder of a link enters. `governance` judges the password."""

    code = forms.CharField(max_length=200, widget=forms.HiddenInput)
    password = forms.CharField(
        label=gettext_lazy("New password"),
        strip=False,
        max_length=4096,
        widget=theme.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy(
            "At least ten characters. Not a common password, and not similar to your name. "
            "Several unrelated words are a good choice."
        ),
    )
    again = forms.CharField(
        label=gettext_lazy("New password, again"),
        strip=False,
        max_length=4096,
        widget=theme.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean(self) -> dict[str, Any]:
        data: dict[str, Any] = super().clean() or self.cleaned_data
        if {"password", "again"} <= data.keys() and data["password"] != data["again"]:
            self.add_error("again", gettext_lazy("The two passwords differ. Enter the same one twice."))
        return data


def role_name(role: str) -> str:
    return str(ROLE_NAMES[role])
