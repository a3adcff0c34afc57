"""The hub as a client of authorization servers: the document that its client id points to. They need no key for it."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Router

from tools_app import governance
from tools_app.api import limits
from tools_app.api.answers import answer
from tools_app.api.errors import RouteNotFoundError

router = Router(auth=None)


@router.get("/toolhub-client.json", include_in_schema=False, url_name="oauth_client")
async def show_client(request: HttpRequest) -> HttpResponse:
    await limits.count_stranger(request)
    document = governance.client_document()
    if document is None:
        raise RouteNotFoundError
    return answer(document)
