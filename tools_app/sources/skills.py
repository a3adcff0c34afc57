"""Skills: the `SKILL.md` of a pack, which becomes a resource and a prompt. https://agentskills.io/specification

It lies in the directory of the pack's module, or in a directory with the name of the skill beside that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from tools_app.sdk.hints import Hints
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.offer import READS_WITHIN, Offer
from tools_app.sdk.pack import Pack
from tools_app.sdk.prompt import Prompt
from tools_app.sdk.resource import Resource
from tools_app.sources.files import OPEN_TO_ALL, Stamp, open_to_all, stamp_of
from tools_app.text import hygiene

FILE: Final = "SKILL.md"
MIME_TYPE: Final = "text/markdown"
# Of the whole file. Agents read all of it at once, so a good one is much shorter.
MOST_BYTES: Final = 64 * 1024
_NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
_MOST_DESCRIPTION: Final = 1_024
_PARTS: Final = re.compile(r"---\n(?P<front>.*?\n)---(?:\n(?P<body>.*))?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Skill:
    """A `SKILL.md`: its front matter, the instructions after it, and the text of both."""

    front: Mapping[str, Any]
    instructions: str
    text: str
    place: str

    @property
    def name(self) -> str:
        return str(self.front["name"])

    @property
    def description(self) -> str:
        return str(self.front["description"])

    @property
    def uri(self) -> str:
        return f"skill://{self.name}/{FILE}"

    @property
    def size(self) -> int:
        return len(self.text.encode())

    @property
    def digest(self) -> str:
        """Of what clients read: line ends are those of Unix, whatever the file has."""
        return f"sha256:{hashlib.sha256(self.text.encode()).hexdigest()}"


class SkillResource(Resource):
    """The file. Its text is part of the definition, as a digest: a changed skill is a changed definition."""

    hints: ClassVar[Hints] = READS_WITHIN

    def __init__(self, skill: Skill, read: Callable[[], str], **declared: Any) -> None:
        self._skill = skill
        super().__init__(skill.uri, read, mime_type=MIME_TYPE, size=skill.size, **declared)

    def _own_fields(self) -> dict[str, Any]:
        skill = {"front": dict(self._skill.front), "digest": self._skill.digest}
        return {**super()._own_fields(), "skill": skill}


class SkillPrompt(Prompt):
    """The instructions, for people to choose in their client."""

    def __init__(self, skill: Skill, use: Callable[[str], str], **declared: Any) -> None:
        self._skill = skill
        super().__init__(use, **declared)

    def _own_fields(self) -> dict[str, Any]:
        return {**super()._own_fields(), "skill": {"digest": self._skill.digest}}


def name_of(pack: Pack) -> str:
    """The name of a pack's skill: names of skills have no underscores."""
    return pack.name.replace("_", "-")


def offers_of(pack: Pack, directory: Path, *, shared: bool) -> Iterator[Offer]:
    """The resource and the prompt of the pack's skill; nothing if it has none.

    `shared`: other packs are in the same directory, as in the tools directory. A `SKILL.md` there belongs to none.

    Raises:
        DefinitionError: the file is not a skill, or not this pack's.
    """
    name = name_of(pack)
    path = directory / name / FILE
    if not path.is_file():
        if shared or not (directory / FILE).is_file():
            return
        path = directory / FILE
    skill = read(path, place=f"{pack.name}/{FILE}", guarded=shared)
    if skill.name != name:
        raise DefinitionError(f"its name must be {name!r}, which is that of the pack", skill.place)
    declared: dict[str, Any] = {
        "description": skill.description,
        "version": pack.version,
        "category": "skills",
        "tags": ("skill",),
        "place": skill.place,
    }
    title = pack.title or pack.name

    def text() -> str:
        return skill.text

    def use(
        task: Annotated[str, Field(max_length=2_000), "What to do; empty: only the instructions"] = "",
    ) -> str:
        return f"{skill.instructions}\n\n# Task\n\n{task}" if task.strip() else skill.instructions

    yield SkillResource(skill, text, name=name, title=f"{title}: skill", **declared)
    yield SkillPrompt(skill, use, name=name, title=f"Work with {title}", **declared)


def read(path: Path, *, place: str = "", guarded: bool = False) -> Skill:
    """`guarded`: a file that every user of this machine can write is refused, as code in the same place is.

    Raises:
        DefinitionError: it cannot be read, or is not a skill.
    """
    place = place or str(path)
    try:
        if guarded and open_to_all(path.stat().st_mode):
            raise DefinitionError(OPEN_TO_ALL, place)
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DefinitionError(f"cannot be read ({error.strerror})", place) from None
    if len(content) > MOST_BYTES:
        raise DefinitionError(f"is larger than {MOST_BYTES // 1024} KiB", place)
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise DefinitionError("is not UTF-8 text", place) from None
    if hygiene.cleaned(text) != text:
        # Clients compare what they read with the digest, and answers of the hub have no such characters.
        raise DefinitionError("has invisible characters", place)
    parts = _PARTS.match(text)
    if parts is None:
        raise DefinitionError("must begin with front matter: a line `---`, name and description, a line `---`", place)
    instructions = (parts["body"] or "").strip()
    if not instructions:
        raise DefinitionError("has no instructions after its front matter", place)
    return Skill(_front(parts["front"], place), instructions, text, place)


def _front(text: str, place: str) -> dict[str, Any]:
    # Few processes read a skill.
    from tools_app.sources.openapi.document import DocumentError
    from tools_app.sources.openapi.loading import loaded

    try:
        front = loaded(text.encode())
    except DocumentError:
        raise DefinitionError("its front matter must be YAML with name and description", place) from None
    name, description = front.get("name"), front.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = "its name must have lower-case letters, digits and single hyphens only, and at most 64 of them"
        raise DefinitionError(message, place)
    if not isinstance(description, str) or not 0 < len(description.strip()) <= _MOST_DESCRIPTION:
        raise DefinitionError(f"its description must have 1 to {_MOST_DESCRIPTION:,} characters", place)
    return front


def stamps_in(directory: Path) -> dict[Path, Stamp]:
    """The skills of the packs in a shared directory."""
    try:
        return {path: stamp for path in directory.glob(f"*/{FILE}") if (stamp := stamp_of(path)) is not None}
    except OSError:
        return {}


def paths_of(origin: Path) -> Iterator[Path]:
    """Where the skills of a module can be: a package has them beside its modules."""
    if origin.name == "__init__.py":
        yield from origin.parent.rglob(FILE)
    elif origin.name:  # There may be no such module.
        yield from (origin.with_name(FILE), origin.parent / origin.stem.replace("_", "-") / FILE)
