"""The hub as an ASGI application: Django, and startup and shutdown of the engine."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import re
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, cast

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")

from django.core.asgi import get_asgi_application

_django: Any = get_asgi_application()

# Only now, after Django is set up.
from django.conf import settings  # noqa: E402
from django.urls import resolve  # noqa: E402
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware  # noqa: E402

from toolhub.pages import Pages  # noqa: E402
from toolhub.static import StaticFiles  # noqa: E402
from tools_app import engine  # noqa: E402
from tools_app.admin.live import stream  # noqa: E402
from tools_app.alerts.sender import Sender  # noqa: E402
from tools_app.api.cors import Cors  # noqa: E402
from tools_app.api.handler import RestHandler  # noqa: E402
from tools_app.api.headers import SafeHeaders  # noqa: E402
from tools_app.api.intake import Intake  # noqa: E402
from tools_app.base import database, hub  # noqa: E402
from tools_app.catalog import catalog  # noqa: E402
from tools_app.journal import retention  # noqa: E402
from tools_app.mcp_server import http  # noqa: E402
from tools_app.setup.backup.schedule import Scheduler  # noqa: E402
from tools_app.sources.watcher import Watcher  # noqa: E402

# Less than the server's shutdown timeout (see `serve`).
BREAK_OFF_SECONDS: Final = 9.0

_MCP: Final = re.compile(r"/mcp(?:/.*)?", re.DOTALL)
# Other addresses may be pages, such as the API documentation.
_REST: Final = re.compile(r"/(?:v1(?!/docs\Z)(?:/.*)?|health|metrics|\.well-known/.*)?", re.DOTALL)


# Requests that contain an OpenAPI document.
_UPLOADS: Final = re.compile(
    r"/v1/sources(?:/preview|/[^/]+/document)?|/admin/tools_app/source/(?:import|[0-9]+/document)/"
)


def _taken_in(application: Any, most_bytes: int = settings.DATA_UPLOAD_MAX_MEMORY_SIZE) -> Any:
    return Intake(application, most_bytes, settings.TOOLHUB_BODY_SECONDS, _UPLOADS)


_pages = _taken_in(StaticFiles(Pages(_django)))
_streams = stream.Streams(StaticFiles(Pages(_django)))
_live = _taken_in(_streams)
_rest = Cors(_taken_in(RestHandler()), settings.TOOLHUB_CORS_ORIGINS)
_mcp = http.Http(origins=[*settings.CSRF_TRUSTED_ORIGINS, *settings.TOOLHUB_CORS_ORIGINS])
_agents = Cors(_taken_in(_mcp, http.MAX_BODY), settings.TOOLHUB_CORS_ORIGINS)


async def _by_address(scope: Any, receive: Any, send: Any) -> None:
    path = scope["path"]
    application = _agents if _MCP.fullmatch(path) else _rest if _REST.fullmatch(path) else _pages
    if path == stream.PATH:
        application = _live
    await application(scope, receive, send)


def behind_proxies(proxies: list[str]) -> Any:
    """The hub, trusting the forwarded headers of these proxies only."""
    return ProxyHeadersMiddleware(cast(Any, SafeHeaders(_by_address)), proxies)


_http = behind_proxies(settings.TOOLHUB_TRUSTED_PROXIES)


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "http":
        await _http(scope, receive, send)
    # No websockets: returning makes the server refuse the handshake.


def _end_in_time() -> None:
    """End calls when the server shuts down, so that all are answered before it cancels the remaining requests.

    It accepts no further connections then, so new calls end by themselves.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)
        if callable(before):
            signal.signal(number, functools.partial(_ending, before))


def _keep_what_is_here() -> None:
    """Exempt objects of the start from garbage collection, which would block the loop for 0.1 s at a time."""
    if threading.current_thread() is threading.main_thread():  # Otherwise the process is shared with other code.
        gc.collect()
        gc.freeze()


def _ending(before: Callable[[int, FrameType | None], Any], number: int, frame: FrameType | None) -> None:
    engine.end_within(BREAK_OFF_SECONDS)
    _mcp.leave()
    _streams.leave()
    before(number, frame)


async def _lifespan(receive: Any, send: Any) -> None:
    keeper, watcher, scheduler, sender = retention.Keeper(), Watcher(), Scheduler(), Sender()
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            engine.adopt_running_loop()
            _end_in_time()
            await catalog.fresh()
            # Import the URL configuration now, so that the first request does not wait for it.
            await database.run(resolve, "/")
            keeper.start()
            watcher.start()
            scheduler.start()
            sender.start()
            await _mcp.start()
            _keep_what_is_here()
            await send({"type": "lifespan.startup.complete"})
        else:
            await asyncio.to_thread(keeper.stop)
            await asyncio.to_thread(watcher.stop)
            await asyncio.to_thread(scheduler.stop)
            await asyncio.to_thread(sender.stop)
            await _mcp.stop()
            await hub.current().aclose()
            await send({"type": "lifespan.shutdown.complete"})
            return
