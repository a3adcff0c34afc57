"""Calls of operations of OpenAPI documents: from arguments to a request, and from the response to a result.

`styles` and `payloads` write the request, `services` has the connections, `runner` sends it, `answers` reads the
response (docs/decisions/0055), `findings` compares it with the document.
"""

from tools_app.upstream.openapi.runner import HttpRunner
from tools_app.upstream.openapi.services import Services

__all__ = ["HttpRunner", "Services"]
