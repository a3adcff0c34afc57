"""Definitions by sources outside, as this hub lists and calls them.

Belongs here: names, schemas, pins and arguments of foreign tools, prompts and resources. Pure functions.
Does not belong here: connections (room upstream), and what is recorded or approved (`sync`, governance).
"""

from __future__ import annotations

from tools_app.sources.foreign.definitions import NORMALISER, described
from tools_app.sources.foreign.keys import original_arguments, original_uri

__all__ = ["NORMALISER", "described", "original_arguments", "original_uri"]
