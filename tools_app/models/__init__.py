"""The tables, and the triggers that count changes to them.

Belongs here: fields, constraints, querysets, and what a row says about itself.
Does not belong here: decisions about rows (governance), calls, and anything that knows the code of a tool.
"""

from tools_app.models.alerts import Alert, AlertDelivery, AlertRule
from tools_app.models.answers import StoredAnswer
from tools_app.models.approvals import Approval, StandingApproval
from tools_app.models.audit import AuditCheckpoint, AuditEntry, AuditKey, AuditSeal
from tools_app.models.budgets import BudgetUse
from tools_app.models.calls import Call, ErrorGroup, ErrorHour, ErrorLog, ErrorNote
from tools_app.models.checks import ToolCheck
from tools_app.models.connections import Connection
from tools_app.models.disk import DiskSample
from tools_app.models.documents import AnswerFinding, SourceDocument
from tools_app.models.figures import CallHour, PendingCount
from tools_app.models.idempotency import IdempotencyKey
from tools_app.models.keys import ApiKey, KeyConnection, KeyToolset
from tools_app.models.managed import ManagedRecord
from tools_app.models.oauth import SignIn, UpstreamToken
from tools_app.models.processes import Agent, Chore, Process
from tools_app.models.revision import Revision
from tools_app.models.saved_views import SavedView
from tools_app.models.sources import Admission, Source, SourceStatus
from tools_app.models.stops import Stop
from tools_app.models.texts import CallText, PendingText
from tools_app.models.tools import Definition, Tag, ToolRecord, ToolTag
from tools_app.models.toolsets import Toolset
from tools_app.models.users import BrowserSession, PasswordLink

__all__ = [
    "Admission",
    "Agent",
    "Alert",
    "AlertDelivery",
    "AlertRule",
    "AnswerFinding",
    "ApiKey",
    "Approval",
    "AuditCheckpoint",
    "AuditEntry",
    "AuditKey",
    "AuditSeal",
    "BrowserSession",
    "BudgetUse",
    "Call",
    "CallHour",
    "CallText",
    "Chore",
    "Connection",
    "Definition",
    "DiskSample",
    "ErrorGroup",
    "ErrorHour",
    "ErrorLog",
    "ErrorNote",
    "IdempotencyKey",
    "KeyConnection",
    "KeyToolset",
    "ManagedRecord",
    "PasswordLink",
    "PendingCount",
    "PendingText",
    "Process",
    "Revision",
    "SavedView",
    "SignIn",
    "Source",
    "SourceDocument",
    "SourceStatus",
    "StandingApproval",
    "Stop",
    "StoredAnswer",
    "Tag",
    "ToolCheck",
    "ToolRecord",
    "ToolTag",
    "Toolset",
    "UpstreamToken",
]
