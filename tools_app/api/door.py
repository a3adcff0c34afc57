"""The wrapper around every REST view: error responses, host check and rate limit headers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from tools_app.api import errors, limits
from tools_app.api.authentication import refuse_keys_in_query
from tools_app.api.errors import MethodNotAllowedError

View = Callable[..., Coroutine[Any, Any, HttpResponseBase]]


def behind_door(view: View) -> View:
    """Wrap a view so that every exception becomes an error response."""

    # csrf_exempt: `authentication` checks the CSRF token of requests with a session cookie. non_atomic_requests: views
    # manage their own transactions and commit before they answer, also in a project with ATOMIC_REQUESTS.
    @transaction.non_atomic_requests
    @csrf_exempt
    @functools.wraps(view)
    async def wrapped_view(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            # Checks ALLOWED_HOSTS: Django does that in a middleware, which REST requests bypass.
            request.get_host()
            refuse_keys_in_query(request)
            response = await view(request, *args, **kwargs)
            if response.status_code == 405:
                raise MethodNotAllowedError(response["Allow"])
        except Exception as error:
            response = await errors.response(request, error)
        limits.add_headers(request, response)
        return response

    return wrapped_view
