"""How many tokens a text has, told from its bytes alone: an estimate, and named so wherever it is shown.

No tokenizer is the right one for every model. Three bytes a token is more than real ones count for JSON, code and
prose; `docs/context.md` says by how much, and where it is less.
"""

from __future__ import annotations

import json
from typing import Any, Final

BYTES_PER_TOKEN: Final = 3

# Below this, a page has no room for what it says about itself.
FEWEST_TOKENS: Final = 1_000
MOST_TOKENS: Final = 1_000_000


def tokens_of(size: int) -> int:
    """About so many tokens are in so many bytes of UTF-8."""
    return -(-size // BYTES_PER_TOKEN)


def bytes_of(tokens: int) -> int:
    """The most bytes that so many tokens may have."""
    return tokens * BYTES_PER_TOKEN


def written(value: Any) -> str:
    """A value as answers are written, to the byte."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def size_of(value: Any) -> int:
    return len(written(value).encode())
