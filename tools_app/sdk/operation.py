"""One operation of an OpenAPI document: how its arguments become an HTTP request. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

# Kind, name and place of a scheme: ("apiKey", "X-Key", "header"), ("http", "bearer", ""), ("oauth2", "", "").
Scheme = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Parameter:
    # The property of the input schema.
    argument: str
    # The name in the request.
    name: str
    # `path`, `query` or `header`.
    place: str
    # `simple`, `form`, `spaceDelimited`, `pipeDelimited` or `deepObject`.
    style: str
    explode: bool
    allow_reserved: bool = False
    allow_empty: bool = False
    # Of a parameter with `content`: its value is written as JSON text.
    media_type: str = ""


@dataclass(frozen=True, slots=True)
class Body:
    argument: str
    # As it is sent.
    media_type: str
    # `json`, `form`, `multipart`, `text` or `binary`.
    encoding: str
    required: bool
    # By property: contentType, style, explode, and {"file": true} for a part that is a file.
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    # Appended to the base URL of the service: `/pets/{petId}`.
    path: str
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    # Alternatives, each with all of its schemes. None: no authentication; an empty alternative: it is optional.
    security: tuple[tuple[Scheme, ...], ...] = ()
    # Media types of the declared successful answers.
    accepts: tuple[str, ...] = ()
    # Declared status codes of success, `2XX` or `default`.
    success: tuple[str, ...] = ()

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Operation:
        body = data.get("body")
        return cls(
            method=data["method"],
            path=data["path"],
            parameters=tuple(Parameter(**parameter) for parameter in data.get("parameters", ())),
            body=Body(**body) if body is not None else None,
            security=tuple(tuple(map(_scheme, alternative)) for alternative in data.get("security", ())),
            accepts=tuple(data.get("accepts", ())),
            success=tuple(data.get("success", ())),
        )

    def as_dict(self) -> dict[str, Any]:
        """As JSON, without what is empty."""
        data: dict[str, Any] = {
            "method": self.method,
            "path": self.path,
            "parameters": [_filled(parameter) for parameter in self.parameters],
            "body": _filled(self.body) if self.body is not None else None,
            "security": [[list(scheme) for scheme in alternative] for alternative in self.security],
            "accepts": list(self.accepts),
            "success": list(self.success),
        }
        return {name: value for name, value in data.items() if value or name == "path"}


def _scheme(scheme: Any) -> Scheme:
    kind, name, place = scheme
    return kind, name, place


def _filled(record: Parameter | Body) -> dict[str, Any]:
    """The fields of a record, without optional ones that are empty."""
    values = ((part, getattr(record, part.name)) for part in fields(record))
    return {part.name: value for part, value in values if value or part.default is part.default_factory is MISSING}
