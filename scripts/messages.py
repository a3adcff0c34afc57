"""What the admin says, in other languages: collects the texts of code and templates, and compiles the translations.

`make messages` writes the catalogues anew; a test asks `problems` whether they fit. Needs Babel, and a Django that is
set up: the models are asked what they call their fields.
"""

from __future__ import annotations

import ast
import io
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import django
from babel.messages import mofile, pofile
from babel.messages.catalog import Catalog, Message
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
LOCALES = ROOT / "tools_app/locale"
LANGUAGES = ("ja",)
MODULE = "django.utils.translation"
# Django turns the tags of a template into calls, and the rest of it into placeholder characters.
_TEXT = r"""u?(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
IMPORTED = f"from {MODULE} import gettext, gettext as _, ngettext, npgettext, pgettext\n"
CALLS = re.compile(rf"\b(?:n?p?gettext|_)\({_TEXT}(?:,\s*{_TEXT})*")


def texts() -> Catalog:
    """All that is said, in the order of its first place."""
    from tools_app.admin import labels

    found = Catalog(domain="django")
    for path, source in _sources():
        for message, context in said(source):
            found.add(message, locations=[(path, 0)], context=context)
    for message in labels.texts():
        found.add(message, locations=[("tools_app/admin/labels.py", 0)])
    return found


def said(source: str) -> Iterator[tuple[str | tuple[str, ...], str | None]]:
    """What is handed to gettext and its kin, under whatever names they are imported."""
    tree = ast.parse(source)
    imported = [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom) and one.module == MODULE]
    names = {alias.asname or alias.name: alias.name for one in imported for alias in one.names}
    calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]
    for call in sorted(calls, key=lambda one: (one.lineno, one.col_offset)):
        called = names.get(call.func.id, "") if isinstance(call.func, ast.Name) else ""
        if "gettext" in called:
            words = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            context = words.pop(0) if "pgettext" in called else None
            if words:
                yield (words[0] if len(words) == 1 else tuple(words)), context


def _sources() -> Iterator[tuple[str, str]]:
    for folder in ("toolhub", "tools_app"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield str(path.relative_to(ROOT)), path.read_text()
    for folder in ("templates", "tools_app/templates"):
        for path in sorted((ROOT / folder).rglob("*.html")):
            calls = (f"{call})\n" for call in CALLS.findall(templatize(path.read_text())))
            yield str(path.relative_to(ROOT)), IMPORTED + "".join(calls)


def catalogue(language: str) -> Catalog:
    """What is translated so far."""
    path = _file(language, "po")
    if not path.exists():
        return Catalog(locale=language, domain="django")
    with path.open("rb") as file:
        return pofile.read_po(file, locale=language, domain="django")


def updated(language: str) -> Catalog:
    """The texts of now with the translations there are. What is said no more is forgotten."""
    found = catalogue(language)
    found.update(texts(), no_fuzzy_matching=True)
    found.obsolete.clear()
    found.header_comment = (
        f"# What the admin says, in the language {language}: collected by `make messages`, translated by hand."
    )
    found.project, found.version, found.fuzzy = "ToolHub", "", False
    found.msgid_bugs_address = found.last_translator = found.language_team = ""
    # Git knows when, and who: a date in here would only differ each time.
    found.creation_date = found.revision_date = datetime(2026, 1, 1, tzinfo=UTC)
    return found


def write(language: str) -> None:
    found = updated(language)
    _file(language, "po").parent.mkdir(parents=True, exist_ok=True)
    with _file(language, "po").open("wb") as file:
        pofile.write_po(file, found, width=116, omit_header=False, include_lineno=False, sort_output=False)
    _file(language, "mo").write_bytes(compiled(found))


def compiled(found: Catalog) -> bytes:
    """As Django reads it."""
    binary = io.BytesIO()
    mofile.write_mo(binary, found)
    return binary.getvalue()


def problems(language: str) -> list[str]:
    """What keeps the translation from being whole and true."""
    found, known = updated(language), catalogue(language)
    wrong = [f"not translated: {_words(one)!r}" for one in found if one.id and not _translated(one)]
    wrong += [f"no longer said: {_words(one)!r}" for one in known if one.id and one.id not in found]
    return wrong + [f"{_words(one)!r}: {error}" for one in found if one.id for error in one.check(found)]


def _translated(message: Message) -> bool:
    strings = message.string if isinstance(message.string, tuple) else (message.string,)
    return all(strings)


def _words(message: Message) -> str:
    return message.id[0] if isinstance(message.id, tuple) else str(message.id)


def _file(language: str, kind: str) -> Path:
    return LOCALES / language / "LC_MESSAGES" / f"django.{kind}"


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")
    django.setup()
    for language in LANGUAGES:
        write(language)
        for problem in problems(language):
            sys.stdout.write(f"{language}: {problem}\n")
