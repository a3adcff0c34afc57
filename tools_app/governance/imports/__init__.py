"""Imports: the servers of an MCP client's configuration, or of the MCP registry, become sources.

Belongs here: reading such files, what each server would become and why not, and storing one of them.
Does not belong here: where clients have their files, and changes of these files (management).
Nothing in such a file is trusted: its author may not be the person who imports it.
"""

from __future__ import annotations

from tools_app.governance.imports.changes import import_source
from tools_app.governance.imports.files import MOST_BYTES, MOST_SERVERS, ImportFile, ImportFileError, read
from tools_app.governance.imports.own import is_own_entry, key_of
from tools_app.governance.imports.plan import Outcome, PlannedSource, plan
from tools_app.governance.imports.values import Question

__all__ = [
    "MOST_BYTES",
    "MOST_SERVERS",
    "ImportFile",
    "ImportFileError",
    "Outcome",
    "PlannedSource",
    "Question",
    "import_source",
    "is_own_entry",
    "key_of",
    "plan",
    "read",
]
