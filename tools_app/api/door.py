"""What stands around every view of the REST door."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from tools_app.api import errors
from tools_app.api.authentication import refuse_keys_in_query
from tools_app.api.errors import MethodNotAllowedError

View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def behind_door(view: View) -> View:
    """The view, answering in the one form whatever happens in it."""

    # No cookie is ever looked at here, so there is no request to forge.
    @csrf_exempt
    @functools.wraps(view)
    async def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            refuse_keys_in_query(request)
            made = await view(request, *args, **kwargs)
            if made.status_code == 405:
                raise MethodNotAllowedError(made["Allow"])
        except Exception as error:
            return await errors.response(request, error)
        return made

    return guarded
