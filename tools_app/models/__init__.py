"""What ToolHub remembers."""

from tools_app.models.answers import StoredAnswer
from tools_app.models.audit import AuditEntry
from tools_app.models.calls import Call, ErrorGroup, ErrorLog
from tools_app.models.connections import Connection
from tools_app.models.figures import CallHour
from tools_app.models.idempotency import IdempotencyKey
from tools_app.models.keys import ApiKey, KeyConnection, KeyToolset
from tools_app.models.processes import Chore, Process
from tools_app.models.revision import Revision
from tools_app.models.tools import Definition, Tag, ToolRecord, ToolTag
from tools_app.models.toolsets import Toolset

__all__ = [
    "ApiKey",
    "AuditEntry",
    "Call",
    "CallHour",
    "Chore",
    "Connection",
    "Definition",
    "ErrorGroup",
    "ErrorLog",
    "IdempotencyKey",
    "KeyConnection",
    "KeyToolset",
    "Process",
    "Revision",
    "StoredAnswer",
    "Tag",
    "ToolRecord",
    "ToolTag",
    "Toolset",
]
