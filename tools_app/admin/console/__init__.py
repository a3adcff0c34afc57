"""The console: operators test a tool, on the same path as every other call."""

from tools_app.admin.console.page import address, again_address, view

__all__ = ["address", "again_address", "view"]
