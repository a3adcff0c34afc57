"""What can be done in a hub, and who may: every action is declared here once, and looked up by every door.

A program needs the scope of an action, a user its permission. Commands and the hub itself may do everything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

from tools_app.sdk.context import Caller
from tools_app.sdk.errors import AuthorizationError

SCOPES: Final = (
    "tools:list",
    "tools:read",
    "tools:execute",
    "tools:manage",
    "sources:manage",
    "metrics:read",
    "admin:*",
)
LIST, READ, EXECUTE, MANAGE, SOURCES, METRICS, ALL = SCOPES
# Each has the permissions of those before it.
ROLES: Final = ("viewer", "operator", "admin")
VIEWER, OPERATOR, ADMIN = ROLES
# All that are declared below.
ACTIONS: Final[list[Action]] = []


class User(Protocol):
    """A user of the admin, as Django's models have it."""

    def has_perm(self, perm: str, /) -> bool: ...


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that can be done or read."""

    # The least role that has the permission; empty: superusers only.
    role: str = ""
    # The permission of a user, without `tools_app.`; empty: no user may, nor any program.
    right: str = ""
    # The scope of a program; empty: no program may.
    scope: str = ""
    # Concerns all tools: a key restricted to toolsets may not.
    all_tools: bool = False
    # Removes a restriction on calls: a program needs `admin:*`, or it could lift its own. This is what it is told.
    lifts: str = ""
    # What an operator does instead.
    instead: str = ""
    # Its name in the audit trail; empty: not recorded there under this name.
    event: str = ""
    # Whether its entries in the audit trail are changes.
    changes: bool = True
    # A setting and another right: while the setting is on, users with that right may as well.
    by_setting: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        ACTIONS.append(self)

    @property
    def permission(self) -> str:
        return self.right if "." in self.right else f"tools_app.{self.right}"

    def events(self, *names: str) -> tuple[Action, ...]:
        """The same for each of these entries of the audit trail."""
        return tuple(replace(self, event=name) for name in names)

    def permits(self, principal: Caller | User) -> bool:
        return self._refusal(principal, "") is None

    def require(self, principal: Caller | User, subject: str = "") -> None:
        """Raises: AuthorizationError. `subject` is what a sentence about a restriction names."""
        if (error := self._refusal(principal, subject)) is not None:
            raise error

    def _refusal(self, principal: Caller | User, subject: str) -> AuthorizationError | None:
        if not isinstance(principal, Caller):
            may = self.right and (principal.has_perm(self.permission) or self._permits_by_setting(principal))
            return None if may else _not_permitted()
        if not self.scope:
            return _not_permitted()
        if not principal.may(self.scope):
            return AuthorizationError.lacking(self.scope)
        if self.all_tools and principal.reach.toolsets is not None:
            return AuthorizationError(
                "Permission denied: your key manages the tools of its toolsets only",
                next_step="Ask an administrator of this hub.",
            )
        if self.lifts and principal.kind in ("key", "token") and not principal.may(ALL):
            return AuthorizationError(
                f"Permission denied: your key {self.lifts.format(subject)}",
                next_step=f"Ask an operator to {self.instead} in the admin, or use a key with admin:*.",
            )
        return None

    def _permits_by_setting(self, user: User) -> bool:
        if self.by_setting is None:
            return False
        # The settings of the site are read with this module.
        from tools_app.base import conf

        setting, right = self.by_setting
        return bool(conf.value(setting)) and user.has_perm(f"tools_app.{right}")


def _not_permitted() -> AuthorizationError:
    return AuthorizationError("Permission denied", next_step="Ask an administrator of this hub.")


def _of_administrators(model: str, app: str = "", scope: str = ALL) -> tuple[Action, ...]:
    """To create, change and delete one."""
    verbs = {"add": "create", "change": "change", "delete": "delete"}
    return tuple(Action(ADMIN, f"{app}{verb}_{model}", scope, event=f"{model}.{done}") for verb, done in verbs.items())


# ---- readings, and calls of tools

TOOLS_LIST: Final = Action(VIEWER, "view_toolrecord", LIST)
TOOLS_READ: Final = Action(VIEWER, "view_toolrecord", READ)
TOOLS_CALL: Final = Action(OPERATOR, "change_toolrecord", EXECUTE)
ALERTS_READ: Final = Action(VIEWER, "view_alert", MANAGE, all_tools=True)
ALERT_RULES_READ: Final = Action(ADMIN, "view_alertrule", ALL)
ALERT_DELIVERIES_READ: Final = Action(ADMIN, "view_alertdelivery", ALL)
AGENTS_READ: Final = Action(VIEWER, "view_agent", MANAGE)
APPROVALS_READ: Final = Action(VIEWER, "view_approval", MANAGE)  # Without it, over REST, a caller's own.
STANDING_READ: Final = Action(VIEWER, "view_standingapproval", MANAGE)
AUDIT_READ: Final = Action(VIEWER, "view_auditentry", ALL)
CALLS_READ: Final = Action(VIEWER, "view_call", ALL)  # Without it, over REST, a caller's own.
CONNECTIONS_READ: Final = Action(OPERATOR, "view_connection", ALL)  # Without secrets.
DATA_READ: Final = Action(VIEWER, "view_disksample")  # What is stored, and how much room there is.
DEFINITIONS_READ: Final = Action(VIEWER, "view_definition", MANAGE)
ERRORS_READ: Final = Action(VIEWER, "view_errorgroup", MANAGE)
ERROR_EVENTS_READ: Final = Action(VIEWER, "view_errorlog")
KEYS_READ: Final = Action(ADMIN, "view_apikey", ALL)
METRICS_READ: Final = Action(VIEWER, "view_callhour", METRICS, all_tools=True)
PROCESSES_READ: Final = Action(VIEWER, "view_process")
SETTINGS_READ: Final = Action(right="view_settings")  # There is no such permission: only superusers have it.
SOURCES_READ: Final = Action(VIEWER, "view_source", MANAGE, all_tools=True)
STOPS_READ: Final = Action(VIEWER, "view_stop", MANAGE)
TOOLSETS_READ: Final = Action(ADMIN, "view_toolset", ALL)
# With the setting, also for who approves calls, and sees their arguments there.
PAYLOADS_READ: Final = Action(
    ADMIN,
    "view_payload",
    event="payload.read",
    changes=False,
    by_setting=("TOOLHUB_OPERATORS_SEE_PAYLOADS", "change_approval"),
)
PAYLOADS_EXPORT: Final = replace(PAYLOADS_READ, by_setting=None)
# In arguments: what is found tells what is in them.
PAYLOADS_SEARCH: Final = replace(PAYLOADS_READ, event="payload.search")
# Of what the lists of the admin show; each asks for the permission to read it.
LIST_EXPORT: Final = Action(event="list.export", changes=False)
# Shown on the pages of others.
PARTS_READ: Final = tuple(Action(VIEWER, f"view_{model}") for model in ("callhour", "sourcestatus", "tag"))

# ---- changes

CALL_APPROVE, CALL_REFUSE = Action(OPERATOR, "change_approval", MANAGE).events("call.approve", "call.refuse")
STANDING_GRANT, STANDING_REVOKE = CALL_APPROVE.events("standing.grant", "standing.revoke")
DEFINITION_APPROVE, DEFINITION_REFUSE = Action(OPERATOR, "change_definition", MANAGE).events(
    "definition.approve", "definition.refuse"
)
DEFINITION_APPROVE_OWN: Final = replace(
    DEFINITION_APPROVE, lifts="cannot approve what {} lists, as it set the address itself", instead="approve it"
)

ERROR_RESOLVE, ERROR_REOPEN, ERROR_NOTE = Action(OPERATOR, "change_errorgroup", MANAGE).events(
    "error.resolve", "error.reopen", "error.note"
)
ERROR_IGNORE, ERROR_SNOOZE, ERROR_ASSIGN = ERROR_RESOLVE.events("error.ignore", "error.snooze", "error.assign")

ALERT_ACKNOWLEDGE: Final = Action(OPERATOR, "change_alert", MANAGE, all_tools=True, event="alert.acknowledge")
ALERT_RULE_CREATE, ALERT_RULE_CHANGE, ALERT_RULE_DELETE = _of_administrators("alertrule")
ALERT_RULE_TEST: Final = replace(ALERT_RULE_CHANGE, event="alertrule.test", changes=False)
ALERT_RESEND: Final = replace(ALERT_RULE_CHANGE, event="alertrule.resend", changes=False)

# Of the list of calls: one's own, and those that everyone sees.
VIEW_SAVE, VIEW_CHANGE, VIEW_DELETE = Action(VIEWER, "view_call").events("view.save", "view.change", "view.delete")
VIEW_SHARE: Final = Action(OPERATOR, "add_savedview")
VIEW_DELETE_ANY: Final = Action(ADMIN, "delete_savedview", event="view.delete")

SOURCE_CHANGE: Final = Action(OPERATOR, "change_source", MANAGE, all_tools=True)
SOURCE_ENABLE, SOURCE_DISABLE, SOURCE_POLICY, SOURCE_TRUST, SOURCE_DESCRIBE = SOURCE_CHANGE.events(
    "source.enable", "source.disable", "source.policy", "source.trust", "source.describe"
)
SOURCE_RECONNECT, SOURCE_INSTRUCTIONS = SOURCE_CHANGE.events("source.reconnect", "source.instructions")
SOURCE_CREATE, SOURCE_ORIGIN = Action(ADMIN, "add_source", SOURCES, all_tools=True).events(
    "source.create", "source.origin"
)
SOURCE_TEST: Final = replace(SOURCE_ORIGIN, event="source.test", changes=False)
# Its request is of the hub, to an address that the actor names.
SOURCE_PREVIEW: Final = replace(SOURCE_ORIGIN, event="source.preview", changes=False)
SOURCE_DOCUMENT, SOURCE_SELECT = SOURCE_ORIGIN.events("source.document", "source.select")
# It also starts the program of a command, as a test does.
SOURCE_ADMIT: Final = replace(SOURCE_TEST, event="source.admit")
SOURCE_REMOVE: Final = Action(ADMIN, "delete_source", SOURCES, all_tools=True, event="source.remove")
SOURCE_INTERNAL: Final = replace(SOURCE_ORIGIN, lifts="cannot give {} an internal address", instead="set the address")
SOURCE_UNPIN: Final = replace(
    SOURCE_ORIGIN, lifts="cannot take the defaults of {} out of approvals", instead="turn it off"
)
# Commands run as the user of the hub. There is no such permission: only superusers have it, and no program.
SOURCE_COMMAND: Final = Action(right="set_command", event="source.command")
SOURCE_TRUST_MORE: Final = replace(SOURCE_TRUST, lifts="cannot make the trust of {} less strict", instead="change it")

STOP_KINDS: Final = ("hub", "pack", "connection", "key", "writes")
STOP: Final = Action(OPERATOR, "change_stop", MANAGE, all_tools=True)
STOP_OF: Final = dict(zip(STOP_KINDS, STOP.events(*(f"{kind}.stop" for kind in STOP_KINDS)), strict=True))
RESUME_OF: Final = dict(zip(STOP_KINDS, STOP.events(*(f"{kind}.resume" for kind in STOP_KINDS)), strict=True))
RESUME_ANY: Final = replace(STOP, lifts="may resume only what it stopped itself", instead="resume it")

TOOL_CHANGE: Final = Action(OPERATOR, "change_toolrecord", MANAGE)
TOOL_ENABLE, TOOL_DISABLE, TOOL_POLICY, TOOL_ASK, TOOL_TAG, TOOL_UNTAG = TOOL_CHANGE.events(
    "tool.enable", "tool.disable", "tool.policy", "tool.ask", "tool.tag", "tool.untag"
)
TOOL_HINTS: Final = replace(TOOL_CHANGE, event="tool.hints")
TOOL_HINTS_BETTER: Final = replace(
    TOOL_HINTS, lifts="cannot declare {} less dangerous than it was", instead="set its hints"
)
TOOL_ASK_NOT: Final = replace(TOOL_ASK, lifts="cannot turn off the required approval of {}", instead="turn it off")
TOOL_DELETE: Final = replace(
    TOOL_CHANGE, event="tool.delete", all_tools=True, lifts="cannot delete tools", instead="delete it"
)

CONNECTION_CREATE, CONNECTION_CHANGE, CONNECTION_DELETE = _of_administrators("connection")
# A person who sees that a connection fails can find out why.
CONNECTION_TEST: Final = replace(CONNECTIONS_READ, event="connection.test", changes=False)
CONNECTION_SIGN_IN, CONNECTION_SIGN_OUT = CONNECTION_CHANGE.events("connection.sign_in", "connection.sign_out")

KEY_CREATE, KEY_CHANGE = Action(ADMIN, "add_apikey", ALL).events("key.create", "key.change")
KEY_REVOKE, KEY_ROTATE = Action(ADMIN, "change_apikey", ALL).events("key.revoke", "key.rotate")

TOOLSET_CREATE, _CHANGE, TOOLSET_DELETE = _of_administrators("toolset")
TOOLSET_CHANGE: Final = replace(_CHANGE, all_tools=True)

# Django's own pages, which check the permissions.
USERS_READ, GROUPS_READ = (Action(ADMIN, f"auth.view_{model}") for model in ("user", "group"))
USER_CREATE, USER_CHANGE, USER_DELETE = _of_administrators("user", app="auth.", scope="")
USER_ROLE, USER_PERMISSIONS, USER_INVITE, USER_RESET = USER_CHANGE.events(
    "user.role", "user.permissions", "user.invite", "user.reset"
)
USER_DEACTIVATE, USER_REACTIVATE, USER_UNLOCK = USER_CHANGE.events("user.deactivate", "user.reactivate", "user.unlock")
USER_END_SESSION: Final = replace(USER_CHANGE, event="user.end_session")  # Everyone can end their own.
# There is no such permission: only superusers make, change and remove superusers.
SUPERUSER_CHANGE: Final = Action(right="change_superuser")
GROUP_CREATE, GROUP_CHANGE, GROUP_DELETE = _of_administrators("group", app="auth.", scope="")

# Of commands, and of the hub itself.
# Of people; what they do with an open session is recorded as what it is.
USER_SIGN_IN, USER_SIGN_OUT, USER_SIGN_IN_FAILED = Action(changes=False).events(
    "user.sign_in", "user.sign_out", "user.sign_in_failed"
)
# Of commands: a link with which a superuser signs in without a password.
USER_BREAK_GLASS: Final = Action(event="user.break_glass")
USER_BREAK_GLASS_REVIEW: Final = replace(USER_CHANGE, event="user.break_glass_review")
# A person's own second factor; an administrator resets that of a person who has lost it.
USER_FACTOR_ADD, USER_FACTOR_CODES, USER_FACTOR_REMOVE = Action().events(
    "user.factor_add", "user.factor_codes", "user.factor_remove"
)
USER_FACTOR_RESET: Final = replace(USER_CHANGE, event="user.factor_reset")
AUDIT_EXPORT: Final = Action(event="audit.export", changes=False)
SOURCE_SYNC: Final = Action(event="source.sync")
CALLER_FORGET, SECRETS_ROTATE, USER_LOCK, USER_MISTYPE, USER_PASSWORD = Action().events(
    "caller.forget", "secrets.rotate", "user.lock", "user.mistype", "user.password"
)
# What is recorded of one caller; arguments and answers need PAYLOADS_READ as well.
CALLER_EXPORT: Final = Action(ADMIN, "view_apikey", event="caller.export", changes=False)
BACKUP_RESTORE: Final = Action(event="backup.restore")
BACKUP_CREATE: Final = Action(event="backup.create", changes=False)
CONFIG_APPLY: Final = Action(event="config.apply")
TOOL_REGISTER, TOOL_REDEFINE, TOOL_RETIRE, TOOL_RETURN = Action().events(
    "tool.register", "tool.redefine", "tool.retire", "tool.return"
)
