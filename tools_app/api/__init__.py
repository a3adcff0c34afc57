"""The REST API: translate in, make one call, translate out.

Belongs here: endpoints, one file for each resource; request bodies, response models, limits of requests.
Does not belong here: rules that the admin, MCP or commands share. The API knows neither of them.
"""

from __future__ import annotations

from ninja import NinjaAPI
from ninja.operation import Operation

from tools_app.access import issuer
from tools_app.api import (
    agents,
    alert_rules,
    alerts,
    approvals,
    audit,
    budgets,
    calling,
    calls,
    connections,
    definitions,
    dependencies,
    failures,
    health,
    keys,
    metrics,
    oauth_client,
    openapi,
    resource,
    root,
    search,
    source_documents,
    sources,
    standing_approvals,
    stops,
    tool_server,
    tools,
    toolsets,
)
from tools_app.api.authentication import KeyAuthentication
from tools_app.api.bodies import StrictParser
from tools_app.api.errors import register_exception_handlers


class Api(NinjaAPI):
    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__


api = Api(
    title="ToolHub",
    version="1",
    urls_namespace="api",
    auth=KeyAuthentication(),
    parser=StrictParser(),
    # Replaced by `openapi` and `docs`: they require a key or a login, and load nothing from other hosts.
    docs_url=None,
    openapi_url=None,
)
register_exception_handlers(api)
api.add_router("", root.router)
api.add_router("", health.router)
api.add_router("", metrics.router)
api.add_router(issuer.METADATA.lstrip("/"), resource.router)
api.add_router(".well-known", oauth_client.router)
api.add_router("v1", openapi.router)
api.add_router("v1", search.labels)
# Before the paths with a tool name, which would match "call" and "search".
api.add_router("v1/tools", calling.router)
api.add_router("v1/tools", search.router)
api.add_router("v1/tools", tool_server.router)
api.add_router("v1/tools", tools.router)
api.add_router("v1/dependencies", dependencies.router)
api.add_router("v1/budgets", budgets.router)
api.add_router("v1/calls", calls.router)
api.add_router("v1/errors", failures.router)
api.add_router("v1/agents", agents.router)
api.add_router("v1/audit", audit.router)
api.add_router("v1/keys", keys.router)
api.add_router("v1/toolsets", toolsets.router)
api.add_router("v1/connections", connections.router)
api.add_router("v1/approvals", approvals.router)
api.add_router("v1/standing-approvals", standing_approvals.router)
api.add_router("v1/definitions", definitions.router)
# Before the paths with the name of a source, which would match "preview".
api.add_router("v1/sources", source_documents.router)
api.add_router("v1/sources", sources.router)
api.add_router("v1/stops", stops.router)
api.add_router("v1/alerts", alerts.router)
api.add_router("v1/alert-rules", alert_rules.router)
