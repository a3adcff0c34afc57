"""Tools from installed Python code: shipped packs, plugins, `tools.py` of Django apps.

A file that fails, or a tool whose name is taken, disables only itself and is reported with its location. The first one
wins: shipped packs cannot be replaced by accident.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import pkgutil
import traceback
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Final

from django.apps import apps

from tools_app.base import conf
from tools_app.sdk import dependencies
from tools_app.sdk.errors import shortened
from tools_app.sdk.names import NAME, DefinitionError
from tools_app.sdk.offer import Offer
from tools_app.sdk.pack import Pack
from tools_app.sdk.places import shown_path
from tools_app.sdk.tool import Tool
from tools_app.sources.registry import LoadProblem, Origin, RegistrationError, Registry
from tools_app.text.redaction import redacted_text

log = logging.getLogger("tools_app.sources")

ENTRY_POINTS: Final = "toolhub.packs"
FILE_MODULES: Final = "toolhub_tools"
# What an import may raise. sys.exit() at the end of a file must not end the hub.
BREAKAGES: Final = (Exception, SystemExit)


def load(registry: Registry, *, sparing: bool = False) -> None:
    """Load everything that is installed into a registry, in order of precedence.

    With `sparing`, shipped packs rest if they need an account and declare their tools in separate modules.
    """
    for name in conf.value("TOOLHUB_PACKS"):
        if sparing and (pack := _can_rest(name, registry)) is not None:
            registry.rest(pack, name)
        else:
            _take_package(name, Origin.SHIPPED, registry)
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: (entry.name, entry.value)):
        _take_entry(entry, registry)
    for app in apps.get_app_configs():
        name = f"{app.name}.tools"
        if app.name != "tools_app" and _file_of(name):
            _take_package(name, Origin.APP, registry)


def wake(pack: str, registry: Registry) -> None:
    """Load a resting pack, with the same result as if it had been loaded at the start."""
    if module := registry.woken(pack):
        _take_package(module, Origin.SHIPPED, registry)
        report_loose_ends(registry)


# ---- finding and importing


def _can_rest(name: str, registry: Registry) -> Pack | None:
    """The pack of a package whose tools are in its other modules and need an account; None if it must be loaded."""
    module = _import(name, registry)
    if module is None or not hasattr(module, "__path__"):
        return None
    packs = [thing for thing in vars(module).values() if isinstance(thing, Pack)]
    return packs[0] if len(packs) == 1 and packs[0].connection is not None and not packs[0].tools else None


def _take_package(name: str, origin: Origin, registry: Registry) -> None:
    """Register a module, or a package with all its modules: a pack may consist of any number of files."""
    module = _import(name, registry)
    if module is None:
        return
    take(module, origin, registry)
    for module_info in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        if not module_info.name.rpartition(".")[2].startswith("_"):
            _take_package(module_info.name, origin, registry)


def _import(name: str, registry: Registry) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except BREAKAGES as error:
        path = _file_of(name)
        report(error, path, shown_path(path, name) or name, registry)
        return None


def _file_of(name: str) -> str:
    """The file of a module; empty if there is no such module."""
    try:
        spec = importlib.util.find_spec(name)
    except BREAKAGES:
        return ""
    return spec.origin or name if spec else ""


def _take_entry(entry: EntryPoint, registry: Registry) -> None:
    try:
        loaded = entry.load()
        if not isinstance(loaded, Pack | ModuleType):
            raise DefinitionError(f"must name a module or a Pack, not {type(loaded).__name__}")
    except BREAKAGES as error:
        path = _file_of(entry.module)
        place = shown_path(path, entry.module) or entry.module
        report(error, path, place, registry, about=f"entry point {entry.name} = {entry.value}: ")
        return
    if isinstance(loaded, Pack):
        _take_pack(loaded, Origin.PLUGIN, registry)
    else:
        _take_package(loaded.__name__, Origin.PLUGIN, registry)


# ---- registering what was found


def take(module: ModuleType, origin: Origin, registry: Registry) -> None:
    """Register what a module declares: its packs, bare tools and Tool classes."""
    packs: list[Pack] = []
    loose: list[Tool | Offer] = []
    for name, thing in list(vars(module).items()):
        try:
            if isinstance(thing, Pack):
                packs.append(thing)
            elif isinstance(thing, Tool | Offer) and thing.pack is None:
                loose.append(thing)
            elif _declares(module, thing) and not _is_taken(thing, registry):
                loose.append(thing())
        except BREAKAGES as error:
            report(error, "", f"{module.__name__}.{name}", registry)
    for pack in packs:
        _take_pack(pack, origin, registry)
    for declaration in loose:
        if isinstance(declaration, Offer):
            _offer(declaration, registry, _pack_name(module))
        else:
            _add(declaration, origin, registry, _pack_name(module))


def _declares(module: ModuleType, thing: object) -> bool:
    """True for a Tool class defined in this module. Base classes have a `_` in front or no `run`."""
    return (
        inspect.isclass(thing)
        and issubclass(thing, Tool)
        and thing.__module__ == module.__name__
        and not thing.__name__.startswith("_")
        and thing.run is not Tool.run
    )


def _is_taken(kind: type[Tool], registry: Registry) -> bool:
    """True if a pack has it, or this module was registered before under another name."""
    present = registry.get(kind.name)
    return (present is not None and type(present.tool) is kind) or (kind.pack is not None and "pack" in vars(kind))


def _pack_name(module: ModuleType) -> str:
    """The pack of tools without one: named after their file or, for a `tools.py`, after their app."""
    *outer, last = module.__name__.split(".")
    name = (outer[-1] if last == "tools" and outer and outer[-1] != FILE_MODULES else last).lower()
    return name if NAME.fullmatch(name) else "tools"


def _take_pack(pack: Pack, origin: Origin, registry: Registry) -> None:
    for error in pack.broken:
        report(error, "", pack.name, registry)
    for tool in pack.tools:
        _add(tool, origin, registry, pack.name)
    for offer in pack.offers:
        _offer(offer, registry, pack.name)


def _add(tool: Tool, origin: Origin, registry: Registry, pack: str) -> None:
    registered = registry.get(tool.name)
    if registered is not None and registered.tool is tool:
        return  # Several modules may contain the same pack or tool.
    if origin is Origin.SHIPPED:
        _make_way(tool, registry)
    try:
        registry.add(tool, origin, pack=pack)
    except DefinitionError as error:
        report(error, "", tool.name, registry, tool=tool.name)


def _make_way(tool: Tool, registry: Registry) -> None:
    """Shipped tools take precedence, even if they are loaded later because their pack was resting."""
    for name in (tool.name, *tool.aliases):
        registered = registry.get(name)
        if registered is not None and registered.origin is not Origin.SHIPPED:
            registry.remove(registered.tool.name)
            error = RegistrationError.taken(f'Tool "{name}"', registered.tool.place, tool.place)
            report(error, "", name, registry, tool=registered.tool.name)


def _offer(offer: Offer, registry: Registry, pack: str) -> None:
    try:
        registry.offer(offer, pack=pack)
    except DefinitionError as error:
        report(error, "", offer.key, registry)


def report_loose_ends(registry: Registry) -> None:
    """Report problems that show only when everything is loaded.

    A prompt whose tool does not exist would be available to no caller, without any hint. Tools that depend on each
    other can never be called.
    """
    if registry.resting:
        return  # Missing tools may belong to resting packs.
    for offer, _ in registry.offers:
        if unknown_tools := [name for name in offer.tools if name not in registry]:
            reason = f"{offer.kind} {offer.key} needs tools that do not exist: {', '.join(unknown_tools)}"
            report(DefinitionError(reason, offer.place), "", offer.key, registry)
    needs = {loaded.tool.folded_name: loaded.tool.required for loaded in registry}
    for names in dependencies.cycles(needs):
        if (loaded := registry.get(names[0])) is not None:
            report(DefinitionError(dependencies.circle(names), loaded.tool.place), "", names[0], registry)


# ---- reporting problems


def report(
    error: BaseException,
    path: str,
    place: str,
    registry: Registry,
    *,
    tool: str = "",
    about: str = "",
    after: str = "",
) -> None:
    """Store and log a load problem. `path` is the file, `place` the location as shown to people."""
    is_expected = isinstance(error, DefinitionError)
    if isinstance(error, DefinitionError):
        place = error.place or place
    elif line := _line_in(error, path):
        place = f"{place}:{line}"
    problem = LoadProblem(place, about + _reason(error, path) + after, tool)
    if registry.report(problem):
        log.error("cannot load %s", problem, exc_info=None if is_expected else error)


def _reason(error: BaseException, path: str) -> str:
    try:
        text = error.msg if isinstance(error, SyntaxError) else str(error)
    except Exception:
        text = ""
    is_expected = isinstance(error, DefinitionError)
    more = [f". {note}" for note in getattr(error, "__notes__", ())] if is_expected else []
    words = shortened(redacted_text(" ".join("".join([text, *more]).split())), 500)
    return words if is_expected else f"{type(error).__name__}: {words}{_deeper(error, path)}"


def _deeper(error: BaseException, path: str) -> str:
    """The location of the error, if it is in an imported file of the same directory."""
    steps = traceback.extract_tb(error.__traceback__)
    file, line = (steps[-1].filename, steps[-1].lineno) if steps else ("", None)
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    beside = file not in ("", path) and bool(path) and Path(file).parent == Path(path).parent
    return f" in {Path(file).name}:{line}" if beside else ""


def _line_in(error: BaseException, path: str) -> int | None:
    """The line of the file itself that led to the error, even if it was raised deeper."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno
    lines = [step.lineno for step in traceback.extract_tb(error.__traceback__) if step.filename == path]
    return lines[-1] if lines else None
