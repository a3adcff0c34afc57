"""What stands around every view of the REST door."""

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
    """The view, answering in the one form whatever happens in it."""

    # Where a cookie is looked at, `authentication` looks at its token too. A project with ATOMIC_REQUESTS must not wrap
    # what manages its own transactions, and commits what it did before the answer leaves.
    @transaction.non_atomic_requests
    @csrf_exempt
    @functools.wraps(view)
    async def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            # Django's own check of the name that the client uses stands in a middleware, which is not on this way.
            request.get_host()
            refuse_keys_in_query(request)
            made = await view(request, *args, **kwargs)
            if made.status_code == 405:
                raise MethodNotAllowedError(made["Allow"])
        except Exception as error:
            made = await errors.response(request, error)
        limits.tell(request, made)
        return made

    return guarded
