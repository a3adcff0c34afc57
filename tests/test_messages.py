"""What the admin says is translated: all of it, into every language it claims to speak."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from babel.messages import Catalog, mofile, pofile

from scripts import messages


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_everything_is_translated_and_nothing_else(language: str) -> None:
    assert messages.problems(language) == [], "run `make messages`, and translate what it names"


@pytest.mark.parametrize("language", messages.LANGUAGES)
def test_what_is_compiled_is_what_was_translated(language: str) -> None:
    folder = messages.LOCALES / language / "LC_MESSAGES"
    with (folder / "django.po").open("rb") as written, (folder / "django.mo").open("rb") as compiled:
        assert _translations(mofile.read_mo(compiled)) == _translations(pofile.read_po(written))


def _translations(catalog: Catalog) -> set[tuple[object, ...]]:
    """Texts with their translations. One file has tuples of plurals where the other has lists."""
    return {(one.context, *_all(one.id), None, *_all(one.string)) for one in catalog if one.id}


def _all(text: str | Iterable[str] | None) -> Iterable[str]:
    return (text,) if isinstance(text, str) else text or ()


def test_texts_are_found_under_any_name_and_within_others() -> None:
    source = (
        "from django.utils.translation import gettext as _, gettext_lazy as later, ngettext, pgettext\n"
        'later("one " "text")\n'
        "f\"{_('within')}\"\n"
        'ngettext("%(n)s tool", "%(n)s tools", 2)\n'
        'pgettext("a verb", "open")\n'
        'later_still("not this")\n'
    )
    found = set(messages.said(source))
    assert found == {("one text", None), ("within", None), (("%(n)s tool", "%(n)s tools"), None), ("open", "a verb")}
