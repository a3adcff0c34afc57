"""Every change that an operator or a key makes: switch a tool, set its limits, create a toolset, a connection or a key.

Belongs here: functions that change state, each in one transaction with its audit entry; the permission to call them.
Does not belong here: forms, bodies and prints. The admin, the API and commands change state through this room only.
"""

from __future__ import annotations

from tools_app.access.actions import SCOPES
from tools_app.governance.actors import Actor, confirmed, of_caller, of_command, of_user, trusted
from tools_app.governance.admission import admit_source, latest_admission
from tools_app.governance.approvals import (
    approve_call,
    approve_definitions,
    approve_tools,
    refuse_call,
    refuse_definitions,
    waiting_versions,
)
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
from tools_app.governance.hints import set_hints
from tools_app.governance.keys import LONGEST_GRACE, change_key, create_key, revoke_key, rotate_key
from tools_app.governance.outside import (
    add_source,
    approve_instructions,
    change_origin,
    reconnect_source,
    remove_source,
)
from tools_app.governance.payloads import note_export, note_payload_read
from tools_app.governance.restoring import Present, Settled, note_backup, present_state, settle_restored
from tools_app.governance.sign_ins import (
    Browser,
    Redirect,
    begin_sign_in,
    browser,
    client_document,
    finish_sign_in,
    public_url,
    sign_out,
)
from tools_app.governance.source_checks import command_warnings
from tools_app.governance.source_documents import (
    DocumentPreview,
    OperationPreview,
    document_of,
    import_document,
    preview_document,
    preview_source,
    replace_document,
    select_operations,
    selection_of,
)
from tools_app.governance.source_tests import SourceTest, test_source
from tools_app.governance.sources import change_source, describe_source
from tools_app.governance.stops import resume, stop
from tools_app.governance.tags import add_tag, remove_tag
from tools_app.governance.tools import change_tool, consequences, delete_tool, set_ask, set_enabled, set_policy
from tools_app.governance.toolsets import SELECTORS, TOOLSET, change_toolset, create_toolset, delete_toolset
from tools_app.governance.users import create_admin, note_lock

__all__ = [
    "LONGEST_GRACE",
    "SCOPES",
    "SELECTORS",
    "TOOLSET",
    "Actor",
    "Browser",
    "DocumentPreview",
    "OperationPreview",
    "Present",
    "Redirect",
    "Settled",
    "SourceTest",
    "add_error_note",
    "add_source",
    "add_tag",
    "admit_source",
    "approve_call",
    "approve_definitions",
    "approve_instructions",
    "approve_tools",
    "begin_sign_in",
    "browser",
    "change_connection",
    "change_key",
    "change_origin",
    "change_source",
    "change_tool",
    "change_toolset",
    "check_connection",
    "client_document",
    "command_warnings",
    "confirmed",
    "consequences",
    "create_admin",
    "create_connection",
    "create_key",
    "create_toolset",
    "delete_connection",
    "delete_tool",
    "delete_toolset",
    "describe_source",
    "document_of",
    "finish_sign_in",
    "import_document",
    "latest_admission",
    "note_backup",
    "note_check",
    "note_export",
    "note_health",
    "note_lock",
    "note_payload_read",
    "of_caller",
    "of_command",
    "of_user",
    "present_state",
    "preview_document",
    "preview_source",
    "public_url",
    "reconnect_source",
    "refuse_call",
    "refuse_definitions",
    "remove_source",
    "remove_tag",
    "reopen_errors",
    "replace_document",
    "resolve_errors",
    "resume",
    "revoke_key",
    "rotate_key",
    "rotate_secrets",
    "select_operations",
    "selection_of",
    "set_ask",
    "set_enabled",
    "set_hints",
    "set_policy",
    "settle_restored",
    "sign_out",
    "stop",
    "test_source",
    "trusted",
    "waiting_versions",
]
