"""The `SKILL.md` of a pack: who can ship one, what is refused, and when a change is noticed."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources.test_directory import Folder
from tests.test_contract import registries
from toolhub import testing
from toolhub.testing.skills import calls_in
from tools_app.models import Source
from tools_app.sdk.offer import Offer
from tools_app.sdk.pack import Pack
from tools_app.sdk.spec import Kind
from tools_app.sources import skills
from tools_app.sources.python import PackageProvider
from tools_app.sources.registry import Registry

WEATHER = '''
from toolhub import Pack

pack = Pack("my_weather", version="2.0.0", title="Weather")

@pack.tool
def get_forecast(city: str, days: int = 1) -> dict[str, str]:
    """Tell the weather."""
    return {"sky": "blue"}
'''
SKILL = """---
name: my-weather
description: How to tell the weather.
license: MIT
metadata:
  level: 3
---

# Weather

Call `get_forecast {"city": "Kyoto"}`.
"""
SHIPPED = {pack.name: pack for registry in registries() for pack in registry.packs}
PACKS = Path(skills.__file__).parent.parent / "packs"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.provider.close()


def offered(registry: Registry) -> dict[str, Offer]:
    return {loaded.spec.kind: loaded.declared for loaded in registry.offers if isinstance(loaded.declared, Offer)}


def beside(folder: Folder, text: str = SKILL, name: str = "my-weather") -> Path:
    (folder.path / name).mkdir(exist_ok=True)
    return folder.write(f"{name}/{skills.FILE}", text)


class TestTheSkillsThatShip:
    @pytest.mark.parametrize("name", ["n8n", "redmine", "websearch"])
    def test_name_only_calls_that_the_tools_accept(self, name: str) -> None:
        testing.assert_skill(SHIPPED[name], PACKS / name / skills.FILE)

    @pytest.mark.parametrize("name", ["n8n", "redmine", "websearch"])
    def test_have_ten_jobs_each_with_a_call_and_are_short(self, name: str) -> None:
        skill = skills.read(PACKS / name / skills.FILE)
        _, *jobs = re.split(r"^## (?=\d+\. )", skill.instructions, flags=re.MULTILINE)
        assert [job.split(".")[0] for job in jobs] == [str(number) for number in range(1, 11)]
        assert [job.splitlines()[0] for job in jobs if not list(calls_in(job))] == []
        assert skill.size < 8_000

    @pytest.mark.parametrize("name", ["n8n", "redmine", "websearch"])
    def test_write_every_tool_and_argument_as_it_is_called(self, name: str) -> None:
        text = skills.read(PACKS / name / skills.FILE).instructions
        known = {"read_result", "_fields", "_guidance", "replace_text", "rename_node", "total_hours", "total_count"}
        for tool in SHIPPED[name].tools:
            known |= {tool.name, *tool.input_schema["properties"]}
        written = set(re.findall(r"(?<!`)`([a-z]+(?:_[a-z]+)+)`(?!`)", text))
        assert written - known - {"allowed_statuses"} == set()


class TestAPackOfAnybody:
    def test_ships_one_beside_its_file_in_the_tools_directory(self, folder: Folder) -> None:
        folder.write("weather.py", WEATHER)
        beside(folder)
        resource, prompt = (offered(folder.registry)[kind] for kind in (Kind.RESOURCE, Kind.PROMPT))
        assert folder.problems == []
        assert (resource.spec.key, resource.spec.title) == ("skill://my-weather/SKILL.md", "Weather: skill")
        assert resource.spec.description == prompt.spec.description == "How to tell the weather."
        assert resource.spec.version == prompt.spec.version == "2.0.0"
        assert resource.spec.place == "my_weather/SKILL.md"
        assert resource.spec.skill["front"] == {
            "name": "my-weather",
            "description": "How to tell the weather.",
            "license": "MIT",
            "metadata": {"level": 3},
        }
        (content,) = testing.call(resource)
        assert content["resource"]["text"] == SKILL
        assert content["resource"]["mimeType"] == "text/markdown"
        assert resource.spec.skill["digest"] == f"sha256:{hashlib.sha256(SKILL.encode()).hexdigest()}"
        assert resource.spec.body["size"] == len(SKILL.encode())
        assert not resource.spec.passes_on

    def test_its_prompt_has_the_instructions_and_the_task(self, folder: Folder) -> None:
        folder.write("weather.py", WEATHER)
        beside(folder)
        prompt = offered(folder.registry)[Kind.PROMPT]
        instructions = '# Weather\n\nCall `get_forecast {"city": "Kyoto"}`.'
        (message,) = testing.call(prompt)
        assert message["content"]["text"] == instructions
        (message,) = testing.call(prompt, task="Will it rain?")
        assert message["content"]["text"] == f"{instructions}\n\n# Task\n\nWill it rain?"

    def test_ships_one_in_its_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = tmp_path / "weather_of_others"
        package.mkdir()
        (package / "__init__.py").write_text(WEATHER)
        # Every module that imports the pack would register its skill again.
        (package / "more.py").write_text("from weather_of_others import pack\n")
        (package / skills.FILE).write_text(SKILL)
        monkeypatch.syspath_prepend(str(tmp_path))
        try:
            provider = PackageProvider("weather", Source.Kind.SHIPPED, "weather_of_others")
            etag = provider.etag()
            assert sorted(offered(provider.loaded())) == ["prompt", "resource"]
            assert provider.loaded().problems == []
            (package / skills.FILE).write_text(SKILL + "\nMore.\n")
            assert provider.etag() != etag
            assert provider.is_outdated()
        finally:
            for name in [name for name in sys.modules if name.startswith("weather_of_others")]:
                del sys.modules[name]

    def test_a_file_that_belongs_to_no_pack_of_the_tools_directory_is_left_alone(self, folder: Folder) -> None:
        folder.write("weather.py", WEATHER)
        folder.write(skills.FILE, SKILL)
        beside(folder, name="another")
        assert offered(folder.registry) == {}
        assert folder.problems == []

    def test_a_change_is_noticed_and_makes_another_definition(self, folder: Folder) -> None:
        folder.write("weather.py", WEATHER)
        path = beside(folder)
        before = {kind: offer.spec.hash for kind, offer in offered(folder.registry).items()}
        assert not folder.look()
        beside(folder, SKILL.replace("Kyoto", "Nara"))
        assert folder.look()
        after = {kind: offer.spec.hash for kind, offer in offered(folder.registry).items()}
        assert before.keys() == after.keys()
        assert not set(before.values()) & set(after.values())
        path.unlink()
        assert folder.look()
        assert offered(folder.registry) == {}
        assert folder.names == ["get_forecast"]

    def test_line_ends_of_windows_do_not_count(self, folder: Folder) -> None:
        folder.write("weather.py", WEATHER)
        (folder.path / "my-weather").mkdir()
        path = folder.path / "my-weather" / skills.FILE
        path.write_bytes(b"\xef\xbb\xbf" + SKILL.replace("\n", "\r\n").encode())
        path.chmod(0o644)
        resource = offered(folder.registry)[Kind.RESOURCE]
        assert resource.spec.skill["digest"] == f"sha256:{hashlib.sha256(SKILL.encode()).hexdigest()}"


class TestWhatIsNotASkill:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("# Weather", "must begin with front matter: a line `---`, name and description, a line `---`"),
            ("---\nname: my-weather\n", "must begin with front matter: a line `---`, name and description"),
            ("---\nname: [\n---\nText", "its front matter must be YAML with name and description"),
            ("---\n- a\n---\nText", "its front matter must be YAML with name and description"),
            (SKILL.replace("my-weather", "my_weather"), "its name must have lower-case letters, digits and single"),
            (SKILL.replace("my-weather", "my--weather"), "its name must have lower-case letters, digits and single"),
            (SKILL.replace("my-weather", "weather"), "its name must be 'my-weather', which is that of the pack"),
            (SKILL.replace("How to tell the weather.", '""'), "its description must have 1 to 1,024 characters"),
            (SKILL.replace("How to tell", "x" * 1_024), "its description must have 1 to 1,024 characters"),
            (SKILL.partition("# Weather")[0], "has no instructions after its front matter"),
            (SKILL.replace("Call", "Call\u200b"), "has invisible characters"),
            (SKILL + "x" * 65_536, "is larger than 64 KiB"),
        ],
    )
    def test_is_reported_and_costs_no_tool(self, folder: Folder, text: str, reason: str) -> None:
        folder.write("weather.py", WEATHER)
        beside(folder, text)
        assert offered(folder.registry) == {}
        assert folder.names == ["get_forecast"]
        (problem,) = folder.problems
        assert problem.startswith(f"my_weather/SKILL.md: {reason}")

    def test_bytes_that_are_no_text(self, folder: Folder) -> None:
        folder.write("weather.py", WEATHER)
        beside(folder).write_bytes(b"---\nname: \xff\n---\n")
        folder.load()
        assert folder.problems == ["my_weather/SKILL.md: is not UTF-8 text"]

    def test_a_file_that_every_user_can_write(self, folder: Folder) -> None:
        folder.write("weather.py", WEATHER)
        beside(folder).chmod(0o666)
        folder.load()
        (problem,) = folder.problems
        assert "is world-writable" in problem
        assert offered(folder.registry) == {}

    def test_a_bomb_of_aliases(self, folder: Folder) -> None:
        rows = ["a0: &a0 x"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 20)}]" for n in range(1, 12)]
        folder.write("weather.py", WEATHER)
        beside(folder, "---\n" + "\n".join(rows) + "\n---\nText\n")
        folder.load()
        (problem,) = folder.problems
        assert "its front matter must be YAML" in problem


class TestTheCheckForAuthors:
    pack = Pack("my_weather")

    @pack.tool(output_schema={"type": "object", "properties": {"sky": {"type": "string"}}})
    @staticmethod
    def get_forecast(city: str, days: int = 1) -> dict[str, str]:
        """Tell the weather."""
        return {"sky": "blue"}

    def refused(self, tmp_path: Path, *calls: str) -> str:
        path = tmp_path / skills.FILE
        path.write_text(SKILL + "\n```text\n" + "\n".join(calls) + "\n```\n")
        with pytest.raises(AssertionError) as caught:
            testing.assert_skill(self.pack, path)
        return str(caught.value)

    def test_accepts_calls_that_fit(self, tmp_path: Path) -> None:
        path = tmp_path / skills.FILE
        path.write_text(SKILL + '\n```\nget_forecast {"city": "Nara", "days": 2, "_fields": ["/sky"]}\n```\n')
        testing.assert_skill(self.pack, path)

    def test_names_every_call_that_does_not(self, tmp_path: Path) -> None:
        calls = {
            'get_weather {"city": "Nara"}': "the pack has no such tool",
            'get_forecast {"city": "Nara", "day": 2}': "Unknown parameter: day",
            'get_forecast {"city": "Nara", "days": "two"}': "days",
            'get_forecast {"city": Nara}': "the arguments are not JSON",
            'get_forecast {"city": "Nara", "_fields": ["/ground"]}': "the answer has nothing at /ground",
        }
        found = self.refused(tmp_path, *calls).splitlines()
        assert len(found) == len(calls)
        for line, (call, words) in zip(found, calls.items(), strict=True):
            assert f"{call}: " in line
            assert words in line

    def test_wants_a_call_and_the_name_of_the_pack(self, tmp_path: Path) -> None:
        path = tmp_path / skills.FILE
        path.write_text("---\nname: other\ndescription: Other.\n---\nDo `what {you like`\n")
        with pytest.raises(AssertionError, match="is called 'other', and its pack 'my_weather'"):
            testing.assert_skill(self.pack, path)
        path.write_text("# none")
        with pytest.raises(AssertionError, match="must begin with front matter"):
            testing.assert_skill(self.pack, path)

    def test_finds_calls_in_blocks_and_in_lines(self) -> None:
        text = 'Use `a {"x": 1}` or `b`.\n\n```text\nc {"y": {"z": "`"}}\nnot a call\n```\n'
        assert [(name, json.loads(arguments)) for name, arguments in calls_in(text)] == [
            ("c", {"y": {"z": "`"}}),
            ("a", {"x": 1}),
        ]
