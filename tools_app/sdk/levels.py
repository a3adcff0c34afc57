"""Log levels: the names that LOG_LEVEL accepts, and the levels of Python's logging."""

from __future__ import annotations

import logging
from typing import Final

TRACE: Final = 5
LEVELS: Final = {
    "fatal": logging.CRITICAL,
    "error": logging.ERROR,
    "warn": logging.WARNING,
    "info": logging.INFO,
    "debug": logging.DEBUG,
    "trace": TRACE,
}
