"""How loud a line of the log is: the names that LOG_LEVEL takes, and what Python's logging calls them."""

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
