"""Makes the audit trail tamper-evident: seals entries in the background, proves them, and exports them as files.

An entry is never sealed in the transaction of its change. `sealing` chains checkpoints over the entries that are final;
`amending` deletes and redacts entries so that what is left still proves itself; `verifying` looks for what else has
changed; `exporting` copies sealed entries to files. `digests` and `keys` are what they share.
"""

from __future__ import annotations

from tools_app.journal.trail.amending import delete_entries, redact_entries
from tools_app.journal.trail.exporting import HUB, Exported, ExportError, export, is_due
from tools_app.journal.trail.keys import renew
from tools_app.journal.trail.sealing import UnsettledError, newest_checkpoint, seal, unsealed
from tools_app.journal.trail.verifying import Fault, Report, last_verified, verify

__all__ = [
    "HUB",
    "ExportError",
    "Exported",
    "Fault",
    "Report",
    "UnsettledError",
    "delete_entries",
    "export",
    "is_due",
    "last_verified",
    "newest_checkpoint",
    "redact_entries",
    "renew",
    "seal",
    "unsealed",
    "verify",
]
