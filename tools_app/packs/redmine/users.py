"""Users. https://www.redmine.org/projects/redmine/wiki/Rest_Users

Changing users is off by default. An option of the connection enables it, for administrators of the hub only.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from tools_app.packs.redmine import REDMINE, USER_ADMINISTRATION, account, pack, shapes, writing
from tools_app.packs.redmine.arguments import Id, Limit, Offset, UserInclude, without_none
from tools_app.sdk.context import Context
from tools_app.sdk.errors import AuthorizationError, InvalidArgumentsError, Problem
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints
from tools_app.sdk.reach import ENVIRONMENT
from tools_app.sdk.signatures import OrNumber

_STATUSES: Final = {0: "anonymous", 1: "active", 2: "registered", 3: "locked"}
_TAGS: Final = ("redmine", "users")
_WRITES: Final = (*_TAGS, "write", "admin")

_User = Annotated[Id, Field(description="User id.")]
_Login = Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9_@.-]+$", description="Login name.")]
_Name = Annotated[str, Field(min_length=1, max_length=30, pattern=r"\S", description="As displayed.")]
_Mail = Annotated[str, Field(min_length=3, max_length=254, pattern=r"^[^@\s]+@[^@\s]+$", description="Email.")]
_Password = Annotated[str, Field(min_length=8, max_length=255, description="At least 8 characters.")]
_Source = Annotated[Id, Field(description="Authentication source, if not Redmine.")]
_Notified = Literal["all", "selected", "only_my_events", "only_assigned", "only_owner", "none"]


def _output(user: Any) -> Any:
    status = user.get("status") if isinstance(user, dict) else None
    words = {"status": _STATUSES.get(status, str(status))} if status is not None else {}
    return shapes.shown(shapes.USER, user | words) if isinstance(user, dict) else {}


USER: Final = writing.Noun("user", "users", "User", shapes.USER, show=_output)


@pack.tool(
    title="List users",
    category="users",
    tags=_TAGS,
    keywords=(
        "people, accounts, who there is, members, staff, find somebody, login",
        "社員一覧 アカウントを探す 人を探す 名簿 登録されている",
    ),
    hints=Hints(read_only=True),
    examples=[Example("Find users named Ann", {"name": "Ann"}, shown_only=True)],
    output_schema=shapes.page("users", shapes.USER),
)
async def list_users(
    ctx: Context,
    status: Annotated[Literal[1, 2, 3] | None, "1 active (default), 2 registered, 3 locked."] = None,
    name: Annotated[str | None, Field(min_length=1, max_length=100), "Part of login, name or mail."] = None,
    group_id: Annotated[Id | None, "Only members of this group."] = None,
    limit: Limit = 25,
    offset: Offset = 0,
) -> dict[str, Any]:
    """List Redmine users. For its administrators only."""
    params = without_none({"status": status, "name": name, "group_id": group_id, "limit": limit, "offset": offset})
    users, counts = await account.many(ctx, "users", name="users", operation="list users", params=params)
    return {"users": [_output(user) for user in users], **counts}


@pack.tool(
    title="Show user",
    category="users",
    tags=_TAGS,
    keywords=("one person, email address, account, login", "メールアドレス 連絡先 プロフィール その人"),
    hints=Hints(read_only=True),
    examples=[
        Example("The account of this connection", {"id": "current"}, {"user": {"id": "<integer>", "login": "<string>"}})
    ],
    output_schema=shapes.one("user", shapes.USER),
)
async def show_user(
    ctx: Context,
    id: Annotated[
        str, Field(pattern="^(current|me|[1-9][0-9]{0,8})$"), OrNumber(), "me (or current), or a user id."
    ] = "current",
    include: UserInclude | None = None,
) -> dict[str, Any]:
    """Get a user. Only administrators see mail, status and groups."""
    key = "current" if id == "me" else id
    user = await account.one(
        ctx, "users", key, name="user", operation="get user", resource="User", include=include or ""
    )
    return {"user": _output(user)}


@pack.tool(
    title="Create user",
    category="users",
    tags=_WRITES,
    keywords=(
        "new account, give a login, onboard, new employee, freelancer",
        "アカウントを作る ログインを用意 新入社員 入社",
    ),
    hints=Hints(destructive=False),
    examples=[
        Example(
            "A user who gets a password by mail",
            {
                "login": "ann",
                "firstname": "Ann",
                "lastname": "Lee",
                "mail": "ann@example.org",
                "generate_password": True,
                "send_information": True,
            },
            shown_only=True,
        )
    ],
    needs_option=USER_ADMINISTRATION.name,
    output_schema=shapes.written("user"),
)
async def create_user(
    ctx: Context,
    login: _Login,
    firstname: _Name,
    lastname: _Name,
    mail: _Mail,
    password: _Password | None = None,
    auth_source_id: _Source | None = None,
    mail_notification: Annotated[_Notified | None, "Email notifications."] = None,
    must_change_passwd: Annotated[bool, "Require a new password at the next login."] = False,
    generate_password: Annotated[bool, "Let Redmine generate a password."] = False,
    send_information: Annotated[bool, "Email login and password to the user."] = False,
) -> dict[str, Any]:
    """Create a user."""
    _check_allowed(ctx)
    payload = without_none(
        {
            "login": login,
            "firstname": firstname,
            "lastname": lastname,
            "mail": mail,
            "password": password,
            "auth_source_id": auth_source_id,
            "mail_notification": mail_notification,
            "must_change_passwd": must_change_passwd or None,
            "generate_password": generate_password or None,
        }
    )
    # Redmine expects this one next to the user object.
    return await writing.create(ctx, USER, payload, beside={"send_information": True} if send_information else {})


@pack.tool(
    title="Update user",
    category="users",
    tags=_WRITES,
    keywords=(
        "lock an account, change an email address, surname, rename a person",
        "アカウントをロック メールアドレスを変える 名前を変える",
    ),
    # Not idempotent: each call may generate a new password and send an email.
    hints=Hints(destructive=True),
    examples=[Example("A new name", {"id": 5, "lastname": "Lee-Park"}, shown_only=True)],
    needs_option=USER_ADMINISTRATION.name,
    output_schema=shapes.written("user"),
)
async def update_user(
    ctx: Context,
    id: _User,
    login: _Login | None = None,
    firstname: _Name | None = None,
    lastname: _Name | None = None,
    mail: _Mail | None = None,
    password: _Password | None = None,
    auth_source_id: _Source | None = None,
    mail_notification: Annotated[_Notified | None, "Email notifications."] = None,
    must_change_passwd: Annotated[bool | None, "Require a new password at the next login."] = None,
    generate_password: Annotated[bool | None, "Let Redmine generate a password."] = None,
    send_information: Annotated[bool, "Email login and password to the user."] = False,
    admin: Annotated[bool | None, "Whether the user is an administrator."] = None,
) -> dict[str, Any]:
    """Change a user. Reports what Redmine ignored."""
    _check_allowed(ctx)
    payload = without_none(
        {
            "login": login,
            "firstname": firstname,
            "lastname": lastname,
            "mail": mail,
            "password": password,
            "auth_source_id": auth_source_id,
            "mail_notification": mail_notification,
            "must_change_passwd": must_change_passwd,
            "generate_password": generate_password,
            "admin": admin,
        }
    )
    if not payload:
        message = "Nothing to change: give at least one field besides id"
        raise InvalidArgumentsError(problems=[Problem("", message, "a field to change")])
    return await writing.update(ctx, USER, id, payload, beside={"send_information": True} if send_information else {})


@pack.tool(
    title="Delete user",
    category="users",
    tags=_WRITES,
    keywords=("remove a login, somebody left, remove an account", "アカウントを消す 退職者 退社"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Delete for good", {"id": 5}, shown_only=True)],
    needs_option=USER_ADMINISTRATION.name,
    output_schema=shapes.written(),
)
async def delete_user(ctx: Context, id: _User) -> dict[str, Any]:
    """Delete a user for good."""
    _check_allowed(ctx)
    return await writing.delete(ctx, USER, id)


def _check_allowed(ctx: Context) -> None:
    """Raises: AuthorizationError: user administration is off for this connection or not allowed for this caller."""
    if not ctx.options.get(USER_ADMINISTRATION.name):
        connection = ctx.connection or ENVIRONMENT
        variable = REDMINE.option_variable(USER_ADMINISTRATION)
        of_environment = f"enable it with {variable}=true in the environment of the hub"
        of_connection = f"turn on its option {USER_ADMINISTRATION.name}, in the admin or over REST"
        raise AuthorizationError(
            f"Permission denied: user administration is off for the connection {connection}",
            next_step="An administrator of this hub can "
            f"{of_environment if connection == ENVIRONMENT else of_connection}.",
        )
    # A local caller is the user who runs the hub on this machine.
    if ctx.caller.kind != "local" and not ctx.caller.may("admin:*"):
        raise AuthorizationError.lacking("admin:*")
