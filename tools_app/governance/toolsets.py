"""Changes of toolsets. They apply from the next request of every key that has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.core.exceptions import ValidationError as DjangoValidationError

from tools_app.access import actions
from tools_app.catalog import catalog
from tools_app.catalog.entry import FINDERS, READER
from tools_app.governance.actors import Actor, changing
from tools_app.governance.managed import Kind, forget, refuse_managed
from tools_app.models import Toolset
from tools_app.models.toolsets import LIKE_A_TOOL
from tools_app.sdk import budgets
from tools_app.sdk.errors import ConflictError, NotFoundError, Problem, ValidationError, shortened
from tools_app.sdk.names import NAME, folded
from tools_app.text import hygiene

SELECTORS: Final = ("packs", "categories", "tags", "names")
# The parts of a toolset that can be changed, beside its name.
TOOLSET: Final = ("description", *SELECTORS, "read_only", "mode", "detail", "overrides", *budgets.PARTS)
MOST_CHARACTERS: Final = 64
MOST_NAMED: Final = 10
MOST_OVERRIDES: Final = 1_000
# The maximum length of a description in a tool list.
MOST_SAID: Final = 1_024


def create_toolset(name: str, *, actor: Actor, reason: str = "", **parts: Any) -> Toolset:
    """Create a toolset. `parts` holds any of the names in `TOOLSET`.

    Raises:
        ValidationError: the name exists or is invalid, or a selector is not a list of names.
    """
    toolset = Toolset(name=name)
    with changing(actions.TOOLSET_CREATE, actor, reason) as change:
        if Toolset.objects.filter(name=name).exists():
            raise ConflictError(f"A toolset named {shortened(name)!r} exists already")
        _set(toolset, parts)
        toolset.save(force_insert=True)
        changes = {part: [None, getattr(toolset, part)] for part in TOOLSET if getattr(toolset, part)}
        change.note(f"toolset:{name}", changes)
    return toolset


def change_toolset(name: str, *, actor: Actor, reason: str = "", **parts: Any) -> list[str]:
    """Change a toolset, effective for every key that has it from its next request. Returns the changed parts.

    Its name cannot change: keys could be updated, but agents are started with the name.

    Raises:
        NotFoundError, ValidationError
    """
    with changing(actions.TOOLSET_CHANGE, actor, reason) as change:
        toolset = _toolset(name)
        before = {part: getattr(toolset, part) for part in TOOLSET}
        _set(toolset, parts)
        changes = {part: [was, getattr(toolset, part)] for part, was in before.items() if getattr(toolset, part) != was}
        if changes:
            refuse_managed(Kind.TOOLSET, [name])
            toolset.save()
            change.note(f"toolset:{name}", changes)
    return sorted(changes)


def delete_toolset(name: str, *, actor: Actor, reason: str = "") -> None:
    """Delete a toolset that no key has, not even a revoked one: without it, the key would reach every tool.

    Raises:
        NotFoundError
        ValidationError: names the keys that have it.
    """
    with changing(actions.TOOLSET_DELETE, actor, reason) as change:
        toolset = _toolset(name)
        refuse_managed(Kind.TOOLSET, [name])
        if keys := list(toolset.keys.values_list("name", flat=True)[: MOST_NAMED + 1]):
            key_names = ", ".join(keys[:MOST_NAMED]) + (" and others" if len(keys) > MOST_NAMED else "")
            raise ConflictError(f"Toolset {name} cannot be deleted: it is in use by {key_names}")
        changes = {part: [getattr(toolset, part), None] for part in TOOLSET if getattr(toolset, part)}
        toolset.delete()
        forget(Kind.TOOLSET, name)
        change.note(f"toolset:{name}", changes)


def _toolset(name: str) -> Toolset:
    toolset = Toolset.objects.select_for_update().filter(name=name).first()
    if toolset is None:
        raise NotFoundError(f"There is no toolset {shortened(name)!r}")
    return toolset


def _set(toolset: Toolset, parts: Mapping[str, Any]) -> None:
    """Raises: ValidationError."""
    for part, value in parts.items():
        if part not in TOOLSET:
            raise ValidationError(f"{part!r} is no part of a toolset; known are {', '.join(TOOLSET)}")
        if part in SELECTORS:
            value = _names(part, value)
        elif part == "overrides":
            value = _overrides(value)
        setattr(toolset, part, value)
    try:
        toolset.clean_fields()
    except DjangoValidationError as error:
        problems = [
            Problem(f"/{part}", f"{part}: {' '.join(messages)}") for part, messages in error.message_dict.items()
        ]
        raise ValidationError(problems=problems) from error
    if toolset.overrides:
        _check_names(toolset)


def _overrides(value: Any) -> dict[str, dict[str, str]]:
    """Raises: ValidationError."""
    if not isinstance(value, Mapping) or len(value) > MOST_OVERRIDES:
        raise _wrong("", f"must be an object with at most {MOST_OVERRIDES:,} names of tools")
    clean_overrides: dict[str, dict[str, str]] = {}
    for tool, override in value.items():
        if not isinstance(tool, str) or not NAME.fullmatch(tool):
            raise _wrong("", "must be by names of tools")
        if not isinstance(override, Mapping) or not override.keys() <= {"name", "description"}:
            raise _wrong(tool, "holds a name, a description or both")
        if not all(isinstance(text, str) for text in override.values()):
            raise _wrong(tool, "name and description must be text")
        name, description = override.get("name", "").strip(), override.get("description", "").strip()
        if name and not NAME.fullmatch(name):
            raise _wrong(tool, f"the name must look like a tool's: {LIKE_A_TOOL.message}", "name")
        if len(description) > MOST_SAID:
            raise _wrong(tool, f"the description may have at most {MOST_SAID:,} characters", "description")
        if hygiene.cleaned(description) != description:
            raise _wrong(tool, "the description has characters that people do not see", "description")
        if texts := {key: text for key, text in (("name", name), ("description", description)) if text}:
            clean_overrides[tool] = texts
    return dict(sorted(clean_overrides.items()))


def _check_names(toolset: Toolset) -> None:
    """Within a toolset, a name must identify one tool.

    Raises:
        ValidationError
    """
    choice = toolset.choice()
    names_in_use = {entry.folded_name for entry in catalog.current().all if choice.holds(entry)}
    aliases: dict[str, str] = {}
    for tool, override in toolset.overrides.items():
        if not (name := override.get("name")):
            continue
        alias = folded(name)
        if alias != folded(tool) and alias in names_in_use:
            raise _wrong(tool, f"{name} is the name of another tool of this toolset", "name")
        if alias in aliases:
            raise _wrong(tool, f"{name} is what {aliases[alias]} is called already", "name")
        if alias in FINDERS | {READER}:
            raise _wrong(tool, f"{name} is the hub's own", "name")
        aliases[alias] = tool


def _wrong(tool: str, message: str, part: str = "") -> ValidationError:
    path = "/".join(["/overrides", *filter(None, (tool, part))])
    return ValidationError(problems=[Problem(path, f"overrides: {f'{tool}: ' if tool else ''}{message}")])


def _names(part: str, value: Any) -> list[str]:
    """Raises: ValidationError."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValidationError(f"{part} must be a list of names")
    names = list(value)
    if not all(isinstance(name, str) and 0 < len(name.strip()) <= MOST_CHARACTERS for name in names):
        raise ValidationError(f"{part} must hold names of 1 to {MOST_CHARACTERS} characters")
    return sorted({name.strip() for name in names})
