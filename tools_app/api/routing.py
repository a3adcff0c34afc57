"""Routers for everything below `/v1`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from ninja import Router

from tools_app.sdk.errors import Problem, ValidationError, shortened
from tools_app.sdk.schemas import pointer


class StrictRouter(Router):
    """Refuses query parameters of operations that take none, as `QueryString` refuses unknown ones."""

    def add_api_operation(self, path: str, methods: list[str], view_func: Callable[..., Any], **options: Any) -> None:
        # OpenAPI then shows the wire names of response fields.
        options["by_alias"] = True
        super().add_api_operation(path, methods, view_func, **options)
        operation = view_func._ninja_operation  # type: ignore[attr-defined]
        if not any(model.__ninja_param_source__ == "query" for model in operation.models):
            operation.view_func = _without_query(view_func)


def _without_query(view: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(view)
    async def strict(request: HttpRequest, **arguments: Any) -> HttpResponse:
        if request.GET:
            names = [shortened(name) for name in request.GET]
            problems = [Problem(pointer([name]), f"Unknown parameter: {name}") for name in names]
            raise ValidationError("Validation failed", problems=problems)
        response: HttpResponse = await view(request, **arguments)
        return response

    return strict
