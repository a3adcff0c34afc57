"""Tools from real files: packs, plugins, apps and the tools directory; what is broken disables only itself."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.apps import apps

from tests.support.state import find_sources_again
from tools_app import sources
from tools_app.models import Source, ToolRecord
from tools_app.sdk.tool import Tool
from tools_app.sources import sync
from tools_app.sources.registry import Registry
from tools_app.sources.sources import Sources

TOOL = '''
from typing import Annotated
from toolhub import Hints, tool

@tool(category="test", hints=Hints(read_only=True))
def {name}(city: Annotated[str, "Where"]) -> str:
    """Tell the weather."""
    return "{name} of " + city
'''
OFFERS = '''
from toolhub import Pack, prompt, resource

pack = Pack("shelf")

@pack.prompt(tools=["nowhere"])
def ask():
    """Ask something."""

@pack.prompt()
def undocumented(): ...

@pack.resource("shelf://{id}/x")
def book(id: str):
    """A book."""

@prompt()
def bare():
    """Ask something else."""

@resource("shelf://{id}/x")
def same(id: str):
    """Another book at the same place."""
'''
CLASS = '''
from pydantic import BaseModel
from toolhub import Tool

class Arguments(BaseModel):
    city: str

class _Base(Tool):
    Arguments = Arguments
    def run(self, ctx, arguments):
        return self.name

class Base(Tool):
    Arguments = Arguments

class Sunny(_Base):
    """Say whether the sun shines."""
    name = "sunny"

class Rainy(Base):
    """Say whether it rains."""
    name = "rainy"
    def run(self, ctx, arguments):
        return self.name
'''
PACK = '''
from toolhub import Pack, Tool
from pydantic import BaseModel

pack = Pack("{pack}", version="2.0.0")

@pack.tool
def {name}() -> str:
    """Do it."""
    return "{name}"
'''


class Everything(Registry):
    """What all sources of a process contain."""

    def __init__(self, sources: Sources) -> None:
        super().__init__()
        self.kinds: dict[str, Source.Kind] = {}
        for provider in sources.providers.values():
            loaded_registry = provider.loaded()
            for loaded in loaded_registry:
                present = self.get(loaded.spec.name)
                if present is None or present.declared is not loaded.declared:
                    assert isinstance(loaded.declared, Tool)
                    self.add(loaded.declared, pack=loaded.pack)
                    self.kinds[loaded.spec.name] = provider.kind
            self._offers |= loaded_registry._offers
            for problem in loaded_registry.problems:
                self.report(problem)


Load = Callable[..., Everything]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on sys.path; what is imported from it is forgotten again."""
    before = set(sys.modules)
    directory = tmp_path / "site"
    directory.mkdir()
    monkeypatch.syspath_prepend(directory)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield directory
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith(str(tmp_path)) or name.startswith("toolhub_tools."):
            del sys.modules[name]


@pytest.fixture
def load(settings: Any, site: Path) -> Load:
    """Load everything that is set up, without the packs that ship."""
    settings.TOOLHUB_PACKS = ()
    settings.TOOLHUB_TOOLS_DIR = None

    def loaded(*packs: str, directory: Path | None = None) -> Everything:
        settings.TOOLHUB_PACKS = packs
        settings.TOOLHUB_TOOLS_DIR = directory
        importlib.invalidate_caches()
        return Everything(Sources())

    return loaded


@pytest.fixture
def tools_dir(tmp_path: Path, site: Path) -> Path:
    directory = tmp_path / "tools"
    directory.mkdir(mode=0o755)
    return directory


def write(path: Path, text: str, **names: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    for key, value in names.items():
        text = text.replace("{" + key + "}", value)
    path.write_text(text)
    path.chmod(0o644)
    return path


def an_app(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Pretend that these are installed apps."""
    configs = [SimpleNamespace(name=name, label=name) for name in names]
    monkeypatch.setattr(apps, "get_app_configs", lambda: configs)


def a_plugin(site: Path, **points: str) -> None:
    """Pretend that a distribution with these entry points is installed."""
    lines = "\n".join(f"{name.replace('__', '-')} = {value}" for name, value in points.items())
    write(site / "fake-1.0.dist-info" / "METADATA", "Metadata-Version: 2.1\nName: fake\nVersion: 1.0\n")
    write(site / "fake-1.0.dist-info" / "entry_points.txt", f"[toolhub.packs]\n{lines}\n")


def names(registry: Registry) -> list[str]:
    return [loaded.spec.name for loaded in registry]


def problems(registry: Registry) -> list[str]:
    return [str(problem) for problem in registry.problems]


def answer(registry: Registry, name: str, **arguments: Any) -> Any:
    loaded = registry.get(name)
    assert loaded is not None
    tool = loaded.declared
    assert isinstance(tool, Tool)
    return tool.run(None, tool.checked(arguments))  # type: ignore[arg-type]


class TestToolsDirectory:
    def test_files_are_loaded_and_their_tools_work(self, load: Load, tools_dir: Path) -> None:
        path = write(tools_dir / "weather.py", TOOL, name="forecast")
        registry = load(directory=tools_dir)
        assert answer(registry, "forecast", city="Kyoto") == "forecast of Kyoto"
        (loaded,) = registry
        assert (loaded.pack, loaded.declared.place) == ("weather", f"{path}:5")
        assert registry.kinds == {"forecast": Source.Kind.FOLDER}
        assert problems(registry) == []

    def test_what_a_broken_file_says_is_told_without_secrets(self, load: Load, tools_dir: Path) -> None:
        write(tools_dir / "a.py", "raise RuntimeError('cannot reach postgres://ann:hunter2@h.test')\n")
        assert problems(load(directory=tools_dir))[0].endswith("RuntimeError: cannot reach postgres://***@h.test")

    def test_a_broken_file_disables_only_itself(self, load: Load, tools_dir: Path) -> None:
        write(tools_dir / "a.py", TOOL, name="first")
        broken = write(tools_dir / "b.py", "import this is not python\n")
        raising = write(tools_dir / "c.py", "x = 1\n\nraise RuntimeError('multi\\nline')\n")
        deep = write(tools_dir / "d.py", "import json\n\n\njson.loads('{')\n")
        write(tools_dir / "e.py", TOOL, name="last")
        registry = load(directory=tools_dir)
        assert names(registry) == ["first", "last"]
        assert problems(registry)[0] == f"{broken}:1: SyntaxError: invalid syntax"
        assert problems(registry)[1] == f"{raising}:3: RuntimeError: multi line"
        assert problems(registry)[2].startswith(f"{deep}:4: JSONDecodeError: Expecting property name")
        assert len(problems(registry)) == 3

    @pytest.mark.parametrize(
        "ending",
        [
            "import sys; sys.exit(3)",
            "raise SystemExit",
            "import no_such_module",
            "1/0",
            "import sys; del sys.modules[__name__]; 1/0",
        ],
    )
    def test_a_file_that_ends_badly_does_not_end_the_hub(self, load: Load, tools_dir: Path, ending: str) -> None:
        write(tools_dir / "bad.py", TOOL + ending, name="bad")
        write(tools_dir / "good.py", TOOL, name="good")
        registry = load(directory=tools_dir)
        assert names(registry) == ["good"]
        assert len(problems(registry)) == 1

    def test_an_exception_that_cannot_be_printed_is_reported(self, load: Load, tools_dir: Path) -> None:
        path = write(
            tools_dir / "mean.py", "class Mean(Exception):\n    def __str__(self): raise ValueError\nraise Mean\n"
        )
        assert problems(load(directory=tools_dir)) == [f"{path}:3: Mean: "]

    def test_a_tool_that_cannot_be_used_is_reported_with_its_line(self, load: Load, tools_dir: Path) -> None:
        path = write(tools_dir / "a.py", TOOL + "\n@tool\ndef undocumented() -> None: ...\n", name="fine")
        registry = load(directory=tools_dir)
        assert names(registry) == []
        assert problems(registry) == [f"{path}:10: Tool description is required"]

    def test_of_a_pack_the_other_tools_stay(self, load: Load, tools_dir: Path) -> None:
        path = write(
            tools_dir / "a.py", PACK + "\n@pack.tool\ndef undocumented() -> None: ...\n", pack="some", name="fine"
        )
        registry = load(directory=tools_dir)
        assert names(registry) == ["fine"]
        assert problems(registry) == [f"{path}:12: Tool description is required"]

    def test_prompts_and_resources_are_loaded_and_the_broken_disable_only_themselves(
        self, load: Load, tools_dir: Path
    ) -> None:
        path = write(tools_dir / "books.py", OFFERS)
        write(tools_dir / "more.py", "from toolhub_tools.books import *\n")
        registry = load(directory=tools_dir)
        assert [(loaded.spec.kind.family, loaded.spec.name, loaded.pack) for loaded in registry.offers] == [
            ("prompt", "ask", "shelf"),
            ("resource", "book", "shelf"),
            ("prompt", "bare", "books"),
        ]
        assert names(registry) == []
        taken = f'Resource "shelf://{{id}}/x" is already registered. The other one is at {path}:13'
        assert problems(registry) == [
            f"{path}:10: prompt undocumented: Tool description is required",
            f"{path}:21: {taken}",
        ]

    def test_of_two_tools_with_one_name_the_first_stays_and_both_places_are_named(
        self, load: Load, tools_dir: Path
    ) -> None:
        first = write(tools_dir / "a.py", TOOL, name="get_it")
        second = write(tools_dir / "b.py", TOOL.replace("@tool(", "@tool(name='get-it', "), name="got")
        registry = load(directory=tools_dir)
        assert names(registry) == ["get_it"]
        assert answer(registry, "get-it", city="Kyoto") == "get_it of Kyoto"
        assert problems(registry) == [f'{second}:5: Tool "get-it" is already registered. The other one is at {first}:5']
        assert registry.problems[0].tool == "get-it"

    def test_files_with_an_underscore_and_other_files_are_left_alone(self, load: Load, tools_dir: Path) -> None:
        write(tools_dir / "_draft.py", "1/0")
        write(tools_dir / "notes.txt", "not python")
        write(tools_dir / "sub" / "inner.py", "1/0")
        registry = load(directory=tools_dir)
        assert (names(registry), problems(registry)) == ([], [])

    def test_class_tools_are_found_and_their_bases_are_not_mistaken_for_tools(
        self, load: Load, tools_dir: Path
    ) -> None:
        write(tools_dir / "a.py", CLASS)
        registry = load(directory=tools_dir)
        assert names(registry) == ["rainy", "sunny"]
        assert answer(registry, "sunny", city="x") == "sunny"
        assert problems(registry) == []

    def test_a_class_that_cannot_be_made_is_reported(self, load: Load, tools_dir: Path) -> None:
        init = "\nclass Odd(_Base):\n    name = 'odd'\n    def __init__(self): 1/0\n"
        write(tools_dir / "a.py", CLASS + init + "\nclass Nameless(_Base):\n    '''No name.'''\n")
        registry = load(directory=tools_dir)
        assert names(registry) == ["rainy", "sunny"]
        assert [problem.reason for problem in registry.problems] == [
            "ZeroDivisionError: division by zero",
            "Tool name is required",
        ]

    def test_a_class_in_a_pack_is_registered_once(self, load: Load, tools_dir: Path) -> None:
        packed = "\nfrom toolhub import Pack\npack = Pack('sky')\npack.add(Sunny)\n"
        write(tools_dir / "a.py", CLASS + packed)
        registry = load(directory=tools_dir)
        assert {loaded.spec.name: loaded.pack for loaded in registry} == {"rainy": "a", "sunny": "sky"}
        assert problems(registry) == []

    @pytest.mark.parametrize("stem", ["my-Tools", "9lives", "weather"])
    def test_a_file_gives_its_tools_a_pack_of_its_name(self, load: Load, tools_dir: Path, stem: str) -> None:
        write(tools_dir / f"{stem}.py", TOOL, name="it")
        (loaded,) = load(directory=tools_dir)
        assert loaded.pack == {"my-Tools": "my-tools", "9lives": "tools", "weather": "weather"}[stem]

    def test_a_directory_everybody_can_write_is_not_loaded(self, load: Load, tools_dir: Path) -> None:
        write(tools_dir / "a.py", "raise AssertionError('this must not run')")
        tools_dir.chmod(0o777)
        registry = load(directory=tools_dir)
        assert names(registry) == []
        (problem,) = registry.problems
        assert problem.place == str(tools_dir)
        assert problem.reason == ("is world-writable and is therefore not loaded; run `chmod o-w` on it")

    def test_a_file_everybody_can_write_is_not_loaded(self, load: Load, tools_dir: Path) -> None:
        path = write(tools_dir / "a.py", "raise AssertionError('this must not run')")
        path.chmod(0o666)
        write(tools_dir / "b.py", TOOL, name="fine")
        registry = load(directory=tools_dir)
        assert names(registry) == ["fine"]
        assert problems(registry)[0].startswith(f"{path}: is world-writable")

    def test_a_directory_that_is_not_there_is_reported(self, load: Load, tmp_path: Path) -> None:
        assert problems(load(directory=tmp_path / "nowhere")) == [
            f"{tmp_path / 'nowhere'}: TOOLHUB_TOOLS_DIR cannot be read (No such file or directory)"
        ]
        file = write(tmp_path / "file", "")
        assert problems(load(directory=file)) == [f"{file}: TOOLHUB_TOOLS_DIR cannot be read (Not a directory)"]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
    def test_a_directory_that_cannot_be_read_is_reported(self, load: Load, tools_dir: Path) -> None:
        tools_dir.chmod(0)
        assert problems(load(directory=tools_dir)) == [
            f"{tools_dir}: TOOLHUB_TOOLS_DIR cannot be read (Permission denied)"
        ]
        tools_dir.chmod(0o700)

    def test_what_cannot_be_loaded_is_logged(
        self, load: Load, tools_dir: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = write(tools_dir / "bad.py", "1/0")
        load(directory=tools_dir)
        (record,) = [record for record in caplog.records if record.name == "tools_app.sources"]
        assert record.getMessage() == f"cannot load {path}:1: ZeroDivisionError: division by zero"
        assert record.levelname == "ERROR"
        assert record.exc_info


class TestPackages:
    def test_a_pack_may_be_cut_into_several_modules(self, load: Load, site: Path) -> None:
        write(site / "sky" / "__init__.py", PACK, pack="sky", name="look_up")
        write(site / "sky" / "stars.py", "from sky import pack\n@pack.tool\ndef stars() -> None:\n    'Stars.'\n")
        write(site / "sky" / "inner" / "__init__.py", "")
        write(site / "sky" / "inner" / "moon.py", TOOL, name="moon")
        write(site / "sky" / "_private.py", "1/0")
        write(site / "sky" / "__main__.py", "raise SystemExit('this must not run')")
        registry = load("sky")
        assert {loaded.spec.name: loaded.pack for loaded in registry} == {
            "look_up": "sky",
            "stars": "sky",
            "moon": "moon",
        }
        assert set(registry.kinds.values()) == {Source.Kind.SHIPPED}
        assert registry.get("moon").declared.place == "sky/inner/moon.py:5"  # type: ignore[union-attr]
        assert problems(registry) == []

    @pytest.mark.parametrize("error", ["ImportError", "ValueError", "SystemExit"])
    def test_a_broken_module_or_subpackage_leaves_the_others(self, load: Load, site: Path, error: str) -> None:
        write(site / "sky" / "__init__.py", PACK, pack="sky", name="look_up")
        write(site / "sky" / "bad.py", f"raise {error}('no')")
        write(site / "sky" / "inner" / "__init__.py", f"\nraise {error}('no')")
        write(site / "sky" / "stars.py", TOOL, name="stars")
        registry = load("sky")
        assert names(registry) == ["look_up", "stars"]
        assert problems(registry) == [f"sky/bad.py:1: {error}: no", f"sky/inner/__init__.py:2: {error}: no"]

    def test_a_broken_or_missing_pack_leaves_the_others(self, load: Load, site: Path) -> None:
        write(site / "good.py", TOOL, name="good")
        write(site / "bad" / "__init__.py", "\n\n1/0")
        registry = load("nowhere", "bad", "good", "nowhere.inner")
        assert names(registry) == ["good"]
        assert problems(registry) == [
            "nowhere: ModuleNotFoundError: No module named 'nowhere'",
            "bad/__init__.py:3: ZeroDivisionError: division by zero",
            "nowhere.inner: ModuleNotFoundError: No module named 'nowhere'",
        ]

    def test_a_pack_that_several_modules_hold_is_registered_once(self, load: Load, site: Path) -> None:
        write(site / "one.py", PACK, pack="one", name="it")
        write(site / "two.py", "from one import *\nfrom one import pack as again\n")
        registry = load("one", "two", "one")
        assert names(registry) == ["it"]
        assert problems(registry) == []

    def test_a_tool_that_several_modules_hold_is_registered_once(self, load: Load, site: Path) -> None:
        write(site / "one.py", TOOL + CLASS, name="it")
        write(site / "two.py", "from one import it, Sunny\n")
        registry = load("one", "two", "one")
        assert {loaded.spec.name: loaded.pack for loaded in registry} == {"it": "one", "rainy": "one", "sunny": "one"}
        assert problems(registry) == []

    def test_loading_again_finds_the_same_tools(self, load: Load, site: Path) -> None:
        write(site / "one.py", TOOL + CLASS, name="it")
        write(site / "two.py", PACK, pack="two", name="that")
        first, second = load("one", "two"), load("one", "two")
        assert names(first) == names(second) == ["it", "rainy", "sunny", "that"]
        assert [loaded.spec.hash for loaded in first] == [loaded.spec.hash for loaded in second]
        assert [loaded.pack for loaded in first] == [loaded.pack for loaded in second]


class TestApps:
    def test_an_apps_tools_are_found(self, load: Load, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(site / "shop" / "__init__.py", "")
        write(site / "shop" / "tools.py", TOOL, name="orders")
        an_app(monkeypatch, "shop")
        registry = load()
        (loaded,) = registry
        assert (loaded.spec.name, loaded.pack) == ("orders", "shop")
        assert registry.kinds == {"orders": Source.Kind.APP}

    def test_an_app_without_tools_is_none_of_our_business(
        self, load: Load, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(site / "plain" / "__init__.py", "")
        write(site / "single.py", "")
        an_app(monkeypatch, "plain", "single", "tools_app")
        registry = load()
        assert (names(registry), problems(registry)) == ([], [])

    def test_a_broken_one_leaves_the_others(self, load: Load, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(site / "bad" / "__init__.py", "")
        write(site / "bad" / "tools.py", "1/0")
        write(site / "shop" / "__init__.py", "")
        write(site / "shop" / "tools.py", TOOL, name="orders")
        an_app(monkeypatch, "bad", "shop")
        registry = load()
        assert names(registry) == ["orders"]
        assert problems(registry) == ["bad/tools.py:1: ZeroDivisionError: division by zero"]


class TestPlugins:
    def test_an_entry_point_names_a_module_a_package_or_a_pack(self, load: Load, site: Path) -> None:
        write(site / "one.py", TOOL, name="one")
        write(site / "two" / "__init__.py", "")
        write(site / "two" / "inner.py", TOOL, name="two")
        write(site / "three.py", PACK + "\nignored = 1\n", pack="three", name="three")
        a_plugin(site, a="one", b="two", c="three:pack")
        registry = load()
        assert {loaded.spec.name: loaded.pack for loaded in registry} == {
            "one": "one",
            "two": "inner",
            "three": "three",
        }
        assert set(registry.kinds.values()) == {Source.Kind.PLUGIN}
        assert problems(registry) == []

    def test_a_broken_one_leaves_the_others_and_says_which_it_is(self, load: Load, site: Path) -> None:
        write(site / "bad.py", "\n1/0")
        write(site / "good.py", TOOL, name="good")
        a_plugin(site, a="bad", b="nowhere.inner", c="good:nothing", d="good:tool", e="good")
        registry = load()
        assert names(registry) == ["good"]
        assert problems(registry) == [
            "bad.py:2: entry point a = bad: ZeroDivisionError: division by zero",
            "nowhere.inner: entry point b = nowhere.inner: ModuleNotFoundError: No module named 'nowhere'",
            "good.py: entry point c = good:nothing: AttributeError: module 'good' has no attribute 'nothing'",
            "good.py: entry point d = good:tool: must name a module or a Pack, not function",
        ]


@pytest.mark.django_db(transaction=True)
class TestSeveralSources:
    def test_what_ships_cannot_be_replaced_and_the_order_is_always_the_same(
        self, load: Load, settings: Any, site: Path, tools_dir: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for module in ("shipped", "plugin", "shop/tools"):
            write(site / f"{module}.py", TOOL, name="it")
        write(site / "shop" / "__init__.py", "")
        write(tools_dir / "own.py", TOOL, name="it")
        a_plugin(site, a="plugin")
        an_app(monkeypatch, "shop")
        settings.TOOLHUB_PACKS, settings.TOOLHUB_TOOLS_DIR = ("shipped",), tools_dir
        find_sources_again()
        sync.sync()
        record = ToolRecord.objects.get()
        assert (record.source_kind, record.place) == ("shipped", "shipped.py:5")
        # By the name of the source.
        assert [str(problem) for problem in sync.problems()] == [
            f'{place}:5: Tool "it" is already registered. The other one is at shipped.py:5'
            for place in ("shop/tools.py", f"{tools_dir}/own.py", "plugin.py")
        ]

    def test_a_tool_that_several_contain_is_recorded_once(self, load: Load, settings: Any, site: Path) -> None:
        write(site / "one.py", TOOL + CLASS, name="it")
        write(site / "two.py", "from one import it, Sunny\n")
        settings.TOOLHUB_PACKS = ("one", "two")
        find_sources_again()
        for _ in range(2):
            sync.sync()
            assert sync.problems() == []
            assert set(ToolRecord.objects.values_list("name", "source__name")) == {
                ("it", "one"),
                ("rainy", "one"),
                ("sunny", "one"),
            }


class TestTheSourcesOfTheProcess:
    def test_are_found_once(self, load: Load) -> None:
        find_sources_again()
        with ThreadPoolExecutor(8) as threads:
            first, *others = threads.map(lambda _: sources.current(), range(8))
        assert all(other is first for other in others)
        find_sources_again()
        assert sources.current() is not first

    def test_can_be_asked_for_by_a_file_that_is_being_loaded(self, load: Load, settings: Any, tools_dir: Path) -> None:
        late = "\nfrom tools_app import sources\nsources.current().code.loaded().add(it)\ndel it\n"
        write(tools_dir / "a.py", TOOL + late, name="it")
        settings.TOOLHUB_TOOLS_DIR = tools_dir
        find_sources_again()
        folder = sources.current().folder
        assert folder is not None
        assert "it" not in folder.loaded()
        assert "it" in sources.current().code.loaded()

    def test_are_not_half_found_when_a_setting_is_wrong(self, load: Load, settings: Any) -> None:
        find_sources_again()
        settings.TOOLHUB_PACKS = 5
        with pytest.raises(TypeError):
            sources.current()
        settings.TOOLHUB_PACKS = ("tests.support.packs.small",)
        assert sources.current().loaded("echo") is not None
