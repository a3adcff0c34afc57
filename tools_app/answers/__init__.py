"""Answers that do not fit an agent's context: what is shown of them at once, and how the rest is read, page by page.

Pure: what is kept of answers, where and for whom, is the engine's business.
"""

from __future__ import annotations

from tools_app.answers.documents import Document, beginning_of, opened
from tools_app.answers.filters import Condition
from tools_app.answers.outlines import outline, outline_alone, with_outline
from tools_app.answers.pages import Asked, PageError, page
from tools_app.text.budget import FEWEST_TOKENS, MOST_TOKENS, bytes_of, tokens_of

__all__ = [
    "FEWEST_TOKENS",
    "MOST_TOKENS",
    "Asked",
    "Condition",
    "Document",
    "PageError",
    "beginning_of",
    "bytes_of",
    "opened",
    "outline",
    "outline_alone",
    "page",
    "tokens_of",
    "with_outline",
]
