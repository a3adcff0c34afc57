"""Results above an agent's token budget: their outline, and reading the rest with pages, pointers and filters.

Belongs here: pure functions over documents.
Does not belong here: storing results (shelf), or whom they belong to.
"""

from __future__ import annotations

from tools_app.answers.documents import Document, beginning_of, opened
from tools_app.answers.filters import Condition
from tools_app.answers.outlines import is_plain, outline, outline_alone, with_outline
from tools_app.answers.pages import PageError, PageRequest, page
from tools_app.answers.selection import Missing, SelectionError, check_paths, selected
from tools_app.text.budget import FEWEST_TOKENS, MOST_TOKENS, bytes_of, tokens_of

__all__ = [
    "FEWEST_TOKENS",
    "MOST_TOKENS",
    "Condition",
    "Document",
    "Missing",
    "PageError",
    "PageRequest",
    "SelectionError",
    "beginning_of",
    "bytes_of",
    "check_paths",
    "is_plain",
    "opened",
    "outline",
    "outline_alone",
    "page",
    "selected",
    "tokens_of",
    "with_outline",
]
