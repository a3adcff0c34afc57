"""What ToolHub remembers."""

from tools_app.models.audit import AuditEntry
from tools_app.models.calls import Call, ErrorLog
from tools_app.models.keys import ApiKey
from tools_app.models.revision import Revision
from tools_app.models.tools import Definition, Tag, ToolRecord, ToolTag

__all__ = ["ApiKey", "AuditEntry", "Call", "Definition", "ErrorLog", "Revision", "Tag", "ToolRecord", "ToolTag"]
