"""An upgrade of a filled hub, from another checkout of ToolHub to this one: `python -m tests.upgrade`."""
