"""Names of models and fields, in the language of the user.

The models speak English: that is what migrations, exports and the audit trail are written in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from django.apps import apps
from django.db.models import Field, Model
from django.utils.translation import gettext_lazy, gettext_noop, override

from tools_app.base.setting_table import GROUPS
from tools_app.catalog.schema_table import LIMITS

# Texts of the theme on our pages; the theme has no Japanese translation of them.
THEME: Final = (
    gettext_noop("Welcome back to"),
    gettext_noop("Select action"),
    gettext_noop("Select action to run"),
    gettext_noop("Select record"),
    gettext_noop("Select value"),
    gettext_noop("Expand row"),
    gettext_noop("Add row"),
    gettext_noop("More actions"),
    gettext_noop("General"),
    gettext_noop("Apply Filters"),
    gettext_noop("Reset filters"),
    gettext_noop("No results found"),
    gettext_noop("This page yielded into no results. Create a new item or reset your filters."),
    gettext_noop("True"),
    gettext_noop("False"),
    gettext_noop("Toggle password visibility"),
    gettext_noop("After you've created a user, you’ll be able to edit more user options."),
    gettext_noop(
        "Raw passwords are not stored, so there is no way to see this user’s password, but you can change the password "
        'using <a href="{}" class="text-primary-600 dark:text-primary-500">this form</a>.'
    ),
    gettext_noop("You have been successfully logged out from the administration"),
    gettext_noop("Return to site"),
)

# Connection options of the shipped packs. Packs do not depend on Django, so they cannot translate.
OPTIONS: Final = (
    gettext_noop("User administration"),
    gettext_noop("Whether users of this Redmine may be created, changed and deleted, by administrators of the hub."),
    gettext_noop("Node types"),
    gettext_noop("File with the node types of this n8n, below TOOLHUB_FILE_ROOT: what `n8n export:nodes` writes."),
)


def speak() -> None:
    """Makes names, help texts and choices of the models translatable in the admin."""
    for model in apps.get_app_config("tools_app").get_models():
        about = model._meta
        about.verbose_name = gettext_lazy(str(about.verbose_name))
        about.verbose_name_plural = gettext_lazy(str(about.verbose_name_plural))
        for field in _fields(model):
            field.verbose_name = gettext_lazy(str(field.verbose_name))
            if field.help_text:
                field.help_text = gettext_lazy(str(field.help_text))
            if field.choices:
                field.choices = [(value, gettext_lazy(str(label))) for value, label in field.flatchoices]


def texts() -> Iterator[str]:
    """The English texts to translate: of models with admin pages, of limits of parameters, of settings."""
    from django.contrib import admin

    yield from LIMITS.values()
    for group in GROUPS:
        yield group.title
        for setting in group.settings:
            yield from filter(None, (setting.help, setting.default_text))
    with override(None):
        for model in apps.get_app_config("tools_app").get_models():
            if admin.site.is_registered(model):
                yield from (str(model._meta.verbose_name), str(model._meta.verbose_name_plural))
                for field in _fields(model):
                    choices = [str(label) for _, label in field.flatchoices]
                    yield from filter(None, (str(field.verbose_name), str(field.help_text), *choices))


def _fields(model: type[Model]) -> list[Field[Any, Any]]:
    own = (*model._meta.local_fields, *model._meta.local_many_to_many)
    return [field for field in own if not field.auto_created]
