"""Reading request bodies: plain JSON in UTF-8 only."""

from __future__ import annotations

from typing import Annotated, Any, Final, cast

from django.http import HttpRequest
from ninja.parser import Parser
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic.config import JsonDict

from tools_app.api.arrival import json_body
from tools_app.api.errors import UnsupportedMediaTypeError
from tools_app.sdk.checker import MAX_PROBLEMS, listed, unknown
from tools_app.sdk.errors import Problem, ValidationError
from tools_app.text.json_text import JsonError


class Body(BaseModel):
    """A request body: unknown fields and type conversions are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _with_integers(cls, body: Any) -> Any:
        """JSON has one number type: `5.0` is an integer like `5`, here as in the arguments of tools."""
        if not isinstance(body, dict):
            return body
        aliases = {field.alias for field in cls.model_fields.values()}
        extra = [str(name) for name in body if name not in aliases]
        if len(extra) > MAX_PROBLEMS:
            # Pydantic would report every one of them.
            problems = [unknown([name]) for name in extra[:MAX_PROBLEMS]]
            raise ValidationError("Validation failed", problems=listed(problems, len(extra)))
        return {key: int(value) if _is_whole(value) else value for key, value in body.items()}


def without_default(schema: dict[str, Any]) -> None:
    """For the schema of a field whose absence means something that no value means."""
    del schema["default"]


# For the schema of a text that must not be blank: str.strip() removes more characters than \s matches.
NOT_BLANK: Final[JsonDict] = {"pattern": r"[^\s\x1c-\x1f\x85]"}

Reason = Annotated[str, Field(max_length=500, description="Recorded in the audit trail")]


class StrictParser(Parser):
    """Ninja's parser accepts any content type, and more than JSON."""

    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        """Raises: UnsupportedMediaTypeError, ValidationError."""
        _refuse_other_types(request)
        try:
            return cast(dict[str, Any], json_body(request))
        except JsonError as error:
            message = f"The body is not valid JSON: {error}"
            raise ValidationError(problems=[Problem("", message)]) from error


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _refuse_other_types(request: HttpRequest) -> None:
    # A foreign web page can send a form or text/plain without a CORS preflight.
    parameters = dict(request.content_params or {})
    charset = parameters.pop("charset", "utf-8").lower()
    if request.content_type != "application/json" or charset != "utf-8" or parameters:
        raise UnsupportedMediaTypeError("The body must be sent as application/json")
    if "Content-Encoding" in request.headers:
        raise UnsupportedMediaTypeError("The body must not be compressed")
