"""Every change that an operator or a key makes: switch a tool, set its limits, create a toolset, a connection or a key.

Belongs here: functions that change state, each in one transaction with its audit entry; the permission to call them.
Does not belong here: forms, bodies and prints. The admin, the API and commands change state through this room only.
"""

from __future__ import annotations

from tools_app.governance.approvals import approve_call, approve_definitions, refuse_call, refuse_definitions
from tools_app.governance.connections import (
    change_connection,
    check_connection,
    create_connection,
    delete_connection,
    note_check,
    note_health,
    rotate_secrets,
)
from tools_app.governance.errors import add_error_note, reopen_errors, resolve_errors
from tools_app.governance.keys import LONGEST_GRACE, SCOPES, create_key, revoke_key, rotate_key
from tools_app.governance.payloads import note_export, note_payload_read
from tools_app.governance.stops import resume, stop
from tools_app.governance.tags import add_tag, remove_tag
from tools_app.governance.tools import change_tool, consequences, set_ask, set_enabled, set_policy
from tools_app.governance.toolsets import SELECTORS, TOOLSET, change_toolset, create_toolset, delete_toolset
from tools_app.governance.users import create_admin, note_lock

__all__ = [
    "LONGEST_GRACE",
    "SCOPES",
    "SELECTORS",
    "TOOLSET",
    "add_error_note",
    "add_tag",
    "approve_call",
    "approve_definitions",
    "change_connection",
    "change_tool",
    "change_toolset",
    "check_connection",
    "consequences",
    "create_admin",
    "create_connection",
    "create_key",
    "create_toolset",
    "delete_connection",
    "delete_toolset",
    "note_check",
    "note_export",
    "note_health",
    "note_lock",
    "note_payload_read",
    "refuse_call",
    "refuse_definitions",
    "remove_tag",
    "reopen_errors",
    "resolve_errors",
    "resume",
    "revoke_key",
    "rotate_key",
    "rotate_secrets",
    "set_ask",
    "set_enabled",
    "set_policy",
    "stop",
]
