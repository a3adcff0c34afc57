"""Routers for everything below `/v1`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from tools_app.api.answers import answer, answer_unless_known, no_content
from tools_app.api.errors import failures
from tools_app.sdk.checker import unknown
from tools_app.sdk.errors import ValidationError


class StrictRouter(Router):
    """Sends what a view returns with the status that its operation declares; with an ETag, if it also declares 304.

    Adds the failures that all operations of its kind can return. Refuses query parameters of operations that take
    none, as `QueryString` refuses unknown ones.
    """

    def add_api_operation(self, path: str, methods: list[str], view_func: Callable[..., Any], **options: Any) -> None:
        declared = options["response"]
        declared = declared if isinstance(declared, dict) else {200: declared}
        on_path = (404,) if "{" in path else ()
        on_body = (408, 413, 415) if "body" in inspect.signature(view_func).parameters else ()
        options["response"] = {
            **{status: model for status, model in declared.items() if status < 400},
            **failures(*on_path, *on_body, *(status for status in declared if status >= 400)),
        }
        # OpenAPI then shows the wire names of response fields.
        options["by_alias"] = True
        super().add_api_operation(path, methods, view_func, **options)
        operation = view_func._ninja_operation  # type: ignore[attr-defined]
        takes_query = any(model.__ninja_param_source__ == "query" for model in operation.models)
        operation.view_func = _sending(view_func, min(declared), has_tag=304 in declared, takes_query=takes_query)


def _sending(view: Callable[..., Any], status: int, *, has_tag: bool, takes_query: bool) -> Callable[..., Any]:
    @functools.wraps(view)
    async def send(request: HttpRequest, **arguments: Any) -> HttpResponse:
        if request.GET and not takes_query:
            raise ValidationError("Validation failed", problems=[unknown([name]) for name in request.GET])
        body = await view(request, **arguments)
        if isinstance(body, HttpResponse):
            return body
        if body is None:
            return no_content()
        return answer_unless_known(request, body) if has_tag else answer(body, status)

    return send
