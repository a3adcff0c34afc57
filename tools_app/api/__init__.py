"""The REST door: translate in, make one call, translate out."""

from __future__ import annotations

from ninja import NinjaAPI

from tools_app.api import health, root, tools
from tools_app.api.authentication import KeyAuthentication
from tools_app.api.bodies import StrictParser
from tools_app.api.errors import register_exception_handlers

api = NinjaAPI(
    title="ToolHub",
    version="1",
    urls_namespace="api",
    auth=KeyAuthentication(),
    parser=StrictParser(),
    # Nobody without a key is told what there is, and a browser cannot send one when it opens a page.
    docs_url=None,
    openapi_url=None,
)
register_exception_handlers(api)
api.add_router("", root.router)
api.add_router("", health.router)
api.add_router("v1/tools", tools.router)
