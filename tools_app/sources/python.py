"""Tools written in Python: shipped packs, installed packages, `tools.py` of Django apps, and tools registered by code.

A file that fails, or a tool whose name is taken, disables only itself and is reported with its location.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import logging
import pkgutil
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from django.apps import apps

from tools_app.base import conf
from tools_app.models import Source
from tools_app.models.sources import LoadProblem
from tools_app.sdk.errors import ToolDisabledError, ToolError, shortened
from tools_app.sdk.hub_errors import ASK_FOR_REASON, ASK_TO_RESTART, NOT_HERE, DefinitionChangedError
from tools_app.sdk.names import NAME, DefinitionError
from tools_app.sdk.offer import Offer
from tools_app.sdk.outside import Origin
from tools_app.sdk.pack import Pack
from tools_app.sdk.places import shown_path
from tools_app.sdk.questions import Ask, InputRequired
from tools_app.sdk.runner import InThread, Jsonable, Returned, Runner
from tools_app.sdk.spec import FORMAT_PARAMETER, RAW_PARAMETER, Kind, ToolSpec
from tools_app.sdk.tool import Tool
from tools_app.sources import skills
from tools_app.sources.files import Stamp, stamp_of
from tools_app.sources.lifecycle import Lifecycle
from tools_app.sources.provider import DescribedTool, SourceContents
from tools_app.sources.registry import Registry
from tools_app.text.redaction import redacted_text

log = logging.getLogger("tools_app.sources")

ENTRY_POINTS: Final = "toolhub.packs"
FILE_MODULES: Final = "toolhub_tools"
SHIPPED_PACKS: Final = "tools_app.packs."
# What an import may raise. sys.exit() at the end of a file must not end the hub.
BREAKAGES: Final = (Exception, SystemExit)


def providers() -> Iterator[PythonProvider]:
    """Every installed source, without importing any."""
    for module in conf.value("TOOLHUB_PACKS"):
        yield PackageProvider(module.removeprefix(SHIPPED_PACKS), Source.Kind.SHIPPED, module)
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: (entry.name, entry.value)):
        yield EntryPointProvider(entry)
    for app in apps.get_app_configs():
        module = f"{app.name}.tools"
        if app.name != "tools_app" and file_of(module):
            yield PackageProvider(f"app:{app.label}", Source.Kind.APP, module)


class PythonProvider:
    """A source whose code runs in this process. It is imported at first use."""

    origin: Origin | None = None

    def __init__(self, name: str, kind: Source.Kind, location: str) -> None:
        self.name, self.kind, self.location = name, kind, location
        self._registry: Registry | None = None
        # Problems that were logged already.
        self._known_problems: Sequence[LoadProblem] = ()
        # The etag of the files that were imported.
        self._imported_etag = ""
        # The recorded etag as this process saw it last.
        self.recorded_etag = ""
        self._lock = threading.RLock()
        self.lifecycle = Lifecycle()

    def etag(self) -> str:
        return ""

    def loaded(self) -> Registry:
        """The code of this source, imported now if it was not yet."""
        if self._registry is None:
            with self._lock:
                if self._registry is None:
                    registry = Registry(self._known_problems)
                    self._imported_etag = self.etag()
                    self.fill(registry)
                    self._registry = registry
        return self._registry

    def fill(self, registry: Registry) -> None:
        """Import everything into a registry."""

    def describe(self) -> SourceContents:
        self.reload_broken()
        registry = self.loaded()
        tools = [DescribedTool(loaded.spec, loaded.pack) for loaded in (*registry, *registry.offers)]
        return SourceContents(tools, registry.problems, self._imported_etag)

    def reload_broken(self) -> None:
        """Import again what could not be imported; modules that could are not executed again."""
        with self._lock:
            if self._registry is not None and self._registry.problems:
                known, self._registry = self._registry.problems, None
                self._known_problems = known

    def is_outdated(self) -> bool:
        return self._registry is not None and self._imported_etag != self.etag()

    async def start(self) -> None:
        await self.lifecycle.start(self.loaded().packs)

    async def stop(self) -> None:
        await self.lifecycle.stop()

    def runner(self, spec: ToolSpec) -> Runner:
        kind, key, argument = spec.kind, spec.key, ""
        if kind is Kind.COMPLETION:
            family, key, argument = spec.runtime["completes"]
            kind = Kind(family)
        registry = self.loaded()
        loaded = registry.find(kind, key)
        if loaded is None:
            raise self._missing(spec, registry)
        if loaded.spec.hash != spec.hash:
            raise DefinitionChangedError.of(spec.name)
        declared = loaded.declared
        if isinstance(declared, Tool):
            return PythonRunner(declared)
        if argument:
            completer = declared.completers[argument]
            assert not isinstance(completer, str)  # noqa: S101 – only functions have a spec
            return PythonRunner(completer)
        return PythonRunner(declared.tool, declared.shaped)

    def _missing(self, spec: ToolSpec, registry: Registry) -> ToolError:
        problem = next((problem for problem in registry.problems if problem.keeps_out(spec.name, spec.place)), None)
        if problem is None:
            return ToolDisabledError.named(spec.name, NOT_HERE, ASK_TO_RESTART)
        log.error("%s cannot be called: %s", spec.name, problem)
        return ToolDisabledError.named(spec.name, "it could not be loaded", ASK_FOR_REASON)


class PackageProvider(PythonProvider):
    """A module, or a package with all its modules."""

    def etag(self) -> str:
        return etag_of(self.location, stamps_of(self.location))

    def fill(self, registry: Registry) -> None:
        _take_package(self.location, registry)


class EntryPointProvider(PythonProvider):
    """An entry point of an installed distribution."""

    def __init__(self, entry: EntryPoint) -> None:
        super().__init__(f"plugin:{entry.name}", Source.Kind.PLUGIN, entry.value)
        self._entry = entry

    def etag(self) -> str:
        version = self._entry.dist.version if self._entry.dist is not None else ""
        return etag_of(f"{self.location} {version}", stamps_of(self._entry.module))

    def fill(self, registry: Registry) -> None:
        _take_entry(self._entry, registry)


class CodeProvider(PythonProvider):
    """Tools that code of this process registers. Other processes do not have them."""

    def __init__(self) -> None:
        super().__init__("code", Source.Kind.CODE, "")
        self._registry = Registry()

    def reload_broken(self) -> None:
        """What code registers is not imported."""


@dataclass(frozen=True, slots=True)
class PreparedArguments:
    """The arguments as a function takes them, and the parameters that the hub handles."""

    values: Any
    raw: bool
    form: str


class PythonRunner:
    """Runs a function of this process. `present` makes content of what it returns."""

    def __init__(self, tool: Tool, present: Callable[[Any], Any] | None = None) -> None:
        self._tool = tool
        self._present = present

    @property
    def explain(self) -> Callable[[Any], ToolError | None] | None:
        kind = self._tool.connection_kind
        return kind.explain if kind is not None else None

    def prepared(self, arguments: Mapping[str, Any]) -> PreparedArguments:
        raw, form = arguments.get(RAW_PARAMETER) is True, str(arguments.get(FORMAT_PARAMETER, ""))
        return PreparedArguments(self._tool.converted(arguments), raw, form)

    async def run(self, context: Any, arguments: PreparedArguments, in_thread: InThread) -> Returned | Ask:
        tool = self._tool
        try:
            if tool.blocking:
                # The thread keeps running after the deadline; it occupies its place until it ends.
                value = await in_thread(lambda: tool.run(context, arguments.values))
            else:
                value = tool.run(context, arguments.values)
            if inspect.isawaitable(value):
                value = await value
        except InputRequired as required:
            return required.ask
        if self._present is not None:
            return Returned(self._present(value))
        form = tool.text_form if arguments.form != "json" else None
        is_short = tool.minimal is not None and not arguments.raw
        return Returned(
            value,
            shape=self._shape if is_short else self._guide if tool.guidance is not None else None,
            write=form.write if form is not None else None,
            escapes=form is not None and form.escapes,
        )

    def _shape(self, data: Any, jsonable: Jsonable) -> Any:
        assert self._tool.minimal is not None  # noqa: S101 – only then it is used
        return self._guide(jsonable(self._tool.minimal(data)), jsonable)

    def _guide(self, data: Any, jsonable: Jsonable) -> Any:
        hint = self._tool.guidance
        if callable(hint):
            hint = hint(data)
        if hint is not None and isinstance(data, dict):
            return {**data, "_guidance": jsonable(hint)}
        return data


# ---- finding and importing


def file_of(module: str) -> str:
    """The file of a module, found without importing its parents; empty if there is no such module."""
    search: Any = None
    spec = None
    parts = module.split(".")
    for number in range(1, len(parts) + 1):
        try:
            spec = PathFinder.find_spec(".".join(parts[:number]), search)
        except BREAKAGES:
            return ""
        if spec is None:
            return ""
        search = spec.submodule_search_locations
    return (spec.origin or module) if spec is not None else ""


def stamps_of(module: str) -> dict[Path, Stamp]:
    """The Python files and skills of a module, or of a package with its packages."""
    origin = Path(file_of(module))
    paths = [*(origin.parent.rglob("*.py") if origin.name == "__init__.py" else [origin]), *skills.paths_of(origin)]
    return {path: stamp for path in paths if path.name and (stamp := stamp_of(path)) is not None}


def etag_of(text: str, stamps: Mapping[Path, Stamp]) -> str:
    """A digest that changes when a file does, or this program."""
    digest = hashlib.sha256(f"{conf.value('TOOLHUB_VERSION')} {text}".encode())
    for path, (modified, size, *_) in sorted(stamps.items()):
        digest.update(f"{path.name} {modified} {size}\n".encode())
    return digest.hexdigest()[:32]


def _take_package(name: str, registry: Registry) -> None:
    """Register a module, or a package with all its modules: a pack may consist of any number of files."""
    module = _import(name, registry)
    if module is None:
        return
    take(module, registry)
    for module_info in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
        if not module_info.name.rpartition(".")[2].startswith("_"):
            _take_package(module_info.name, registry)


def _import(name: str, registry: Registry) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except BREAKAGES as error:
        path = file_of(name)
        report(error, path, shown_path(path, name) or name, registry)
        return None


def _take_entry(entry: EntryPoint, registry: Registry) -> None:
    try:
        loaded = entry.load()
        if not isinstance(loaded, Pack | ModuleType):
            raise DefinitionError(f"must name a module or a Pack, not {type(loaded).__name__}")
    except BREAKAGES as error:
        path = file_of(entry.module)
        place = shown_path(path, entry.module) or entry.module
        report(error, path, place, registry, about=f"entry point {entry.name} = {entry.value}: ")
        return
    if isinstance(loaded, Pack):
        _take_pack(loaded, registry, sys.modules[entry.module])
    else:
        _take_package(loaded.__name__, registry)


# ---- registering what was found


def take(module: ModuleType, registry: Registry) -> None:
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
        _take_pack(pack, registry, module)
    for declaration in loose:
        if isinstance(declaration, Offer):
            _offer(declaration, registry, _pack_name(module))
        else:
            _add(declaration, registry, _pack_name(module))


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
    return (present is not None and type(present.declared) is kind) or (kind.pack is not None and "pack" in vars(kind))


def _pack_name(module: ModuleType) -> str:
    """The pack of tools without one: named after their file or, for a `tools.py`, after their app."""
    *outer, last = module.__name__.split(".")
    name = (outer[-1] if last == "tools" and outer and outer[-1] != FILE_MODULES else last).lower()
    return name if NAME.fullmatch(name) else "tools"


def _take_pack(pack: Pack, registry: Registry, module: ModuleType) -> None:
    if pack not in registry.packs:
        registry.packs.append(pack)
    for error in pack.broken:
        report(error, "", pack.name, registry)
    for tool in pack.tools:
        _add(tool, registry, pack.name)
    for offer in pack.offers:
        _offer(offer, registry, pack.name)
    _take_skill(pack, registry, module)


def _take_skill(pack: Pack, registry: Registry, module: ModuleType) -> None:
    """Register the `SKILL.md` that lies beside a module of the pack."""
    file = getattr(module, "__file__", None)
    if not file or any(loaded.pack == pack.name and loaded.spec.skill for loaded in registry.offers):
        return
    shared = module.__name__.startswith(f"{FILE_MODULES}.")
    try:
        for offer in skills.offers_of(pack, Path(file).parent, shared=shared):
            _offer(offer, registry, pack.name)
    except DefinitionError as error:
        report(error, "", pack.name, registry)


def _add(tool: Tool, registry: Registry, pack: str) -> None:
    registered = registry.get(tool.name)
    if registered is not None and registered.declared is tool:
        return  # Several modules may contain the same pack or tool.
    try:
        registry.add(tool, pack=pack)
    except DefinitionError as error:
        report(error, "", tool.name, registry, tool=tool.name)


def _offer(offer: Offer, registry: Registry, pack: str) -> None:
    try:
        registry.offer(offer, pack=pack)
    except DefinitionError as error:
        report(error, "", offer.key, registry)


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
