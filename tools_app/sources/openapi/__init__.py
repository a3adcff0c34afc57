"""OpenAPI documents: what they describe, as tools.

Belongs here: JSON and YAML of documents, their references, operations as definitions. Pure functions; what is large is
read in a process of its own.
Does not belong here: fetching a document, calling an operation (room upstream), what is recorded or approved.
"""

from __future__ import annotations

from tools_app.sources.openapi.document import Document, DocumentError, Found, Server, listing
from tools_app.sources.openapi.reading import read

__all__ = ["Document", "DocumentError", "Found", "Server", "listing", "read"]
