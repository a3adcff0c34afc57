"""Token estimates from the size in bytes; every place that shows one calls it an estimate.

No tokenizer is right for every model. Three bytes per token gives more tokens than real tokenizers count for JSON,
code and prose; `docs/context.md` has the figures and the exceptions.
"""

from __future__ import annotations

import json
from typing import Any, Final

BYTES_PER_TOKEN: Final = 3

# Below this, a page has no room for its own metadata.
FEWEST_TOKENS: Final = 1_000
MOST_TOKENS: Final = 1_000_000

_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def tokens_of(size: int) -> int:
    """The estimated number of tokens in this number of bytes of UTF-8."""
    return -(-size // BYTES_PER_TOKEN)


def bytes_of(tokens: int) -> int:
    """The maximum number of bytes for this number of tokens."""
    return tokens * BYTES_PER_TOKEN


def written(value: Any) -> str:
    """A value as JSON, exactly as arguments are measured and answers are written.

    Raises:
        ValueError, TypeError, RecursionError: not representable in JSON.
    """
    return _encode(value)


def size_of(value: Any) -> int:
    return len(written(value).encode())
