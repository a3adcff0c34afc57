"""Resources: what a pack has to read, each at a URI of its own.

@pack.resource("weather://cities/{city}/today", mime_type="text/markdown")
async def today(city: Annotated[str, Completes(cities)]) -> str:
    \"\"\"The weather of a city today.\"\"\"

today.changed(city="Kyoto")      # whoever has subscribed to it is told
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

from pydantic_core import to_json

from tools_app.sdk import content
from tools_app.sdk.content import EmbeddedResource
from tools_app.sdk.errors import NotFoundError
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.offer import READS, Offer
from tools_app.sdk.pack import Pack
from tools_app.sdk.policies import Rate
from tools_app.sdk.tool import Hints
from tools_app.sdk.uris import UriTemplate

OWN_SCHEME: Final = "toolhub:"
_YEAR: Final = 365 * 24 * 3600
_DECLARABLE: Final = frozenset(
    {*("name", "title", "description", "category", "tags", "tools", "timeout", "rate"), "mime_type", "size", "max_age"}
)

# Told of every URI that a pack says has changed, in whichever thread it does.
_watching: list[Callable[[str], None]] = []


class Resource(Offer):
    """Something to read: text, bytes, or data, which is read as JSON. None says that there is no such thing."""

    kind: ClassVar[str] = "resource"
    hints: ClassVar[Hints] = READS

    def __init__(
        self,
        uri: str,
        function: Callable[..., Any],
        *,
        mime_type: str = "",
        size: int | None = None,
        max_age: float = 0,
        **declared: Any,
    ) -> None:
        self.uri = uri
        self.mime_type = mime_type
        self.size = size
        # Seconds for which a client may keep what it has read.
        self.max_age = max_age
        super().__init__(function, **declared)
        try:
            self.template = UriTemplate(uri)
            content.check_media_type(mime_type)
            if size is not None and (not isinstance(size, int) or size < 0):
                raise ValueError("size must be a number of bytes")
            if not isinstance(max_age, int | float) or not 0 <= max_age < _YEAR:
                raise ValueError("max_age must be a number of seconds, less than a year")
            if uri.startswith(OWN_SCHEME):
                raise ValueError(f"{OWN_SCHEME}// is the hub's own")
            if set(self.template.variables) != set(self.runner.input_schema.get("required", ())) or len(
                self.template.variables
            ) != len(self.properties):
                raise ValueError(f"the function must take what stands in braces in {uri}, and nothing else")
        except ValueError as error:
            raise DefinitionError(f"resource {self.name}: {error}", self.place) from error
        self.check_listed()

    @property
    def key(self) -> str:
        return self.uri

    @property
    def fixed(self) -> bool:
        return not self.template.variables

    def at(self, **blanks: Any) -> str:
        """Its URI, with the blanks filled."""
        return self.template.filled(blanks)

    def changed(self, uri: str = "", /, **blanks: Any) -> None:
        """Tell whoever has subscribed to it, in this process, that it is worth reading again. In any thread."""
        uri = uri or self.at(**blanks)
        for told in tuple(_watching):
            told(uri)

    def shaped(self, returned: Any) -> list[EmbeddedResource]:
        # The URI that was asked for is put in its place by whoever answers.
        match returned:
            case None:
                about = {"operation": "read", "resourceType": "resource", "resourceId": self.uri}
                raise NotFoundError("Resource not found", context=about)
            case str():
                return [EmbeddedResource(self.uri, returned, self.mime_type or "text/plain")]
            case bytes() | bytearray() | memoryview():
                return [EmbeddedResource(self.uri, bytes(returned), self.mime_type or "application/octet-stream")]
            case EmbeddedResource():
                return [returned]
            case [EmbeddedResource(), *_] if all(isinstance(piece, EmbeddedResource) for piece in returned):
                return list(returned)
        return [EmbeddedResource(self.uri, to_json(returned).decode(), self.mime_type or "application/json")]

    def wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {
            ("uri" if self.fixed else "uriTemplate"): self.uri,
            "name": self.name,
            "description": self.description,
        }
        told = {"title": self.title, "mimeType": self.mime_type, "size": self.size if self.fixed else None}
        return wire | {key: value for key, value in told.items() if value not in ("", None)}


def resource(
    uri: str,
    /,
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    mime_type: str = "",
    size: int | None = None,
    max_age: float = 0,
    category: str = "",
    tags: Iterable[str] = (),
    tools: Iterable[str] = (),
    timeout: float | None = None,
    rate: Rate | None = None,
) -> Callable[[Callable[..., Any]], Resource]:
    """Make a function a resource: one at a fixed URI takes nothing, one with blanks takes what fills them.

    Raises:
        DefinitionError: at import, with file and line, when the function cannot become a resource.
    """
    return lambda function: Resource(
        uri,
        function,
        name=name,
        title=title,
        description=description,
        mime_type=mime_type,
        size=size,
        max_age=max_age,
        category=category,
        tags=tuple(tags),
        tools=tools,
        timeout=timeout,
        rate=rate,
    )


def made(uri: str, function: Callable[..., Any], pack: Pack | None, declared: dict[str, Any]) -> Resource:
    if unknown := declared.keys() - _DECLARABLE:
        raise TypeError(f"resource() has no option {', '.join(sorted(unknown))}")
    return Resource(uri, function, pack=pack, **declared)


def watch(told: Callable[[str], None]) -> Callable[[], None]:
    """Hear of every change from now on, until what this returns is called."""
    _watching.append(told)
    return lambda: _watching.remove(told)
