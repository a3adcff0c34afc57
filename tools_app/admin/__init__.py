"""The admin: the door for operators. Importing it registers every page."""

from tools_app.admin import audit, calls, errors, keys, tools, users

__all__ = ["audit", "calls", "errors", "keys", "tools", "users"]
