"""What the hub lets go of: what is older than the settings say, and callers who are to be forgotten."""

from __future__ import annotations

from tools_app.retention.folding import fold
from tools_app.retention.forgetting import Forgotten, forget, identified, remembered
from tools_app.retention.keeper import Keeper
from tools_app.retention.pruning import Pruned, prunable, prune

__all__ = ["Forgotten", "Keeper", "Pruned", "fold", "forget", "identified", "prunable", "prune", "remembered"]
