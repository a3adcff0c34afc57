"""Resources: data that a pack offers for reading, each at its own URI.

@pack.resource("weather://cities/{city}/today", mime_type="text/markdown")
async def today(city: Annotated[str, Completes(cities)]) -> str:
    \"\"\"The weather of a city today.\"\"\"

today.changed(city="Kyoto")      # notifies the subscribers
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

# Called with every URI that a pack reports as changed, in the thread of the report.
_watchers: list[Callable[[str], None]] = []


class Resource(Offer):
    """A resource. Its function returns text, bytes, or data that is sent as JSON; None means "not found"."""

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
        # Seconds for which a client may cache it.
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
                raise ValueError(f"{OWN_SCHEME}// is reserved for the hub")
            if set(self.template.variables) != set(self.runner.input_schema.get("required", ())) or len(
                self.template.variables
            ) != len(self.properties):
                raise ValueError(f"the parameters of the function must be the variables of {uri}")
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
        """Its URI, with values for the variables."""
        return self.template.filled(blanks)

    def changed(self, uri: str = "", /, **blanks: Any) -> None:
        """Notify the subscribers in this process that it has changed. Thread-safe."""
        uri = uri or self.at(**blanks)
        for notify in tuple(_watchers):
            notify(uri)

    def shaped(self, returned: Any) -> list[EmbeddedResource]:
        # The caller of this replaces the URI template with the requested URI.
        match returned:
            case None:
                context = {"operation": "read", "resourceType": "resource", "resourceId": self.uri}
                raise NotFoundError("Resource not found", context=context)
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
        optional = {"title": self.title, "mimeType": self.mime_type, "size": self.size if self.fixed else None}
        return wire | {key: value for key, value in optional.items() if value not in ("", None)}


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
    """Make a function a resource. Its parameters are the variables of the URI template; a fixed URI has none.

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


def watch(notify: Callable[[str], None]) -> Callable[[], None]:
    """Call `notify` with the URI of every change. Returns the function that ends this."""
    _watchers.append(notify)
    return lambda: _watchers.remove(notify)
