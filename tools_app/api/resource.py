"""OAuth protected resource metadata (RFC 9728). It needs no key: clients read it before they have a token."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from ninja import Router

from tools_app.access import issuer
from tools_app.api import limits
from tools_app.api.answers import answer
from tools_app.api.errors import RouteNotFoundError

router = Router(auth=None)


@router.get("", include_in_schema=False, url_name="resource")
async def show_hub(request: HttpRequest) -> HttpResponse:
    return await _metadata(request, "")


@router.get("/mcp", include_in_schema=False, url_name="resource_mcp")
async def show_door(request: HttpRequest) -> HttpResponse:
    return await _metadata(request, issuer.DOOR)


@router.get("/mcp/{toolset}", include_in_schema=False, url_name="resource_toolset")
async def show_toolset(request: HttpRequest, toolset: str) -> HttpResponse:
    """The same for every name: it does not reveal which toolsets exist."""
    return await _metadata(request, f"{issuer.DOOR}/{toolset}")


async def _metadata(request: HttpRequest, path: str) -> HttpResponse:
    await limits.count_stranger(request)
    if not issuer.trusted_issuer():
        raise RouteNotFoundError
    return answer(issuer.metadata(f"{request.scheme}://{request.get_host()}", path))
