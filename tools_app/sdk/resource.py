"""Resources: data that a pack offers for reading, each at its own URI.

@pack.resource("weather://cities/{city}/today", mime_type="text/markdown")
async def today(city: Annotated[str, Completes(cities)]) -> str:
    \"\"\"The weather of a city today.\"\"\"

today.changed(city="Kyoto")      # notifies the subscribers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Unpack

from pydantic_core import to_json

from tools_app.sdk import content
from tools_app.sdk.content import EmbeddedResource
from tools_app.sdk.errors import NotFoundError
from tools_app.sdk.hints import Hints
from tools_app.sdk.names import DefinitionError
from tools_app.sdk.offer import READS, Offer, OfferOptions, check_options
from tools_app.sdk.pack import Pack
from tools_app.sdk.spec import Kind
from tools_app.sdk.uris import UriTemplate

OWN_SCHEME: Final = "toolhub:"
_YEAR: Final = 365 * 24 * 3600

# Called with every URI that a pack reports as changed, in the thread of the report.
_watchers: list[Callable[[str], None]] = []


class Resource(Offer):
    """A resource. Its function returns text, bytes, or data that is sent as JSON; None means "not found"."""

    kind: ClassVar[Kind] = Kind.RESOURCE
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
            if set(self.template.variables) != set(self.tool.input_schema.get("required", ())) or len(
                self.template.variables
            ) != len(self.tool.input_schema["properties"]):
                raise ValueError(f"the parameters of the function must be the variables of {uri}")
        except ValueError as error:
            raise DefinitionError(f"resource {self.name}: {error}", self.place) from error
        self.check_listed()

    @property
    def key(self) -> str:
        return self.uri

    def _own_fields(self) -> dict[str, Any]:
        fields = {"uri": self.uri, "mimeType": self.mime_type, "size": self.size, "maxAge": self.max_age or None}
        kind = Kind.TEMPLATE if self.template.variables else Kind.RESOURCE
        return {"kind": str(kind)} | {name: value for name, value in fields.items() if value not in ("", None)}

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


class ResourceOptions(OfferOptions, total=False):
    mime_type: str
    size: int | None
    max_age: float


def resource(uri: str, /, **declared: Unpack[ResourceOptions]) -> Callable[[Callable[..., Any]], Resource]:
    """Make a function a resource. Its parameters are the variables of the URI template; a fixed URI has none.

    Raises:
        DefinitionError: at import, with file and line, when the function cannot become a resource.
    """
    return lambda function: made(uri, function, None, declared)


def made(uri: str, function: Callable[..., Any], pack: Pack | None, declared: Mapping[str, Any]) -> Resource:
    check_options(declared, ResourceOptions, Kind.RESOURCE)
    return Resource(uri, function, pack=pack, **declared)


def watch(notify: Callable[[str], None]) -> Callable[[], None]:
    """Call `notify` with the URI of every change. Returns the function that ends this."""
    _watchers.append(notify)
    return lambda: _watchers.remove(notify)
