"""The admin: the door for operators. Importing it registers every page."""

from tools_app.admin import audit, calls, connections, error_groups, errors, keys, processes, tools, toolsets, users

__all__ = ["audit", "calls", "connections", "error_groups", "errors", "keys", "processes", "tools", "toolsets", "users"]
