"""The console: an operator tries a tool, on the path of every other call."""

from tools_app.admin.console.page import address, again_address, view

__all__ = ["address", "again_address", "view"]
