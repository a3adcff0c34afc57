"""Log handlers and formatters. `configure` is Django's LOGGING_CONFIG.

The log goes to stderr, since stdout belongs to the MCP protocol, and to a file if one is configured. One event is
one line; secrets are masked; a log call never raises, whatever its arguments.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import sys
import time
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from django.core.exceptions import ImproperlyConfigured
from typing_extensions import override

from tools_app.base.log_fields import RESERVED, call_id
from tools_app.sdk import traces
from tools_app.sdk.levels import LEVELS, TRACE
from tools_app.text.redaction import CUT, one_line, one_line_json, redacted, redacted_beginning, redacted_ends

MOST_BYTES: Final = 8 * 1024  # in a line
MOST_MESSAGE: Final = 6 * 1024
MOST_EXTRAS: Final = 20
MOST_NAME: Final = 40

_NAMES: Final = {number: name for name, number in LEVELS.items()}
# Levels of third-party loggers at our levels info, debug and trace. They would log message bodies, SQL with values,
# headers, and URLs with user input.
_OTHERS: Final[Mapping[str, tuple[int, int, int]]] = {
    "asyncio": (logging.WARNING, logging.WARNING, logging.DEBUG),
    "axes": (logging.WARNING, logging.INFO, logging.INFO),
    "django.db.backends": (logging.WARNING, logging.WARNING, logging.WARNING),
    "django.server": (logging.ERROR, logging.INFO, logging.INFO),
    "django.template": (logging.INFO, logging.INFO, logging.INFO),
    "django.utils.autoreload": (logging.INFO, logging.INFO, logging.INFO),
    "httpcore2": (logging.WARNING, logging.WARNING, logging.WARNING),
    "httpx": (logging.WARNING, logging.WARNING, logging.WARNING),
    "httpx2": (logging.WARNING, logging.WARNING, logging.WARNING),
    "mcp": (logging.WARNING, logging.INFO, logging.DEBUG),
    "opentelemetry": (logging.CRITICAL, logging.WARNING, logging.DEBUG),
    "urllib3": (logging.WARNING, logging.WARNING, logging.WARNING),
    "uvicorn.access": (logging.WARNING, logging.WARNING, logging.WARNING),
    "uvicorn.error": (logging.WARNING, logging.INFO, logging.INFO),
}
# Loggers with handlers of their own: Django's defaults, and uvicorn's if another program configured it.
_WITH_HANDLERS: Final = ("django", "django.server", "uvicorn", "uvicorn.access", "uvicorn.error")


def configure(options: Mapping[str, Any]) -> None:
    """Set up logging for this process: `level`, `format` and `file` of settings.LOGGING.

    Raises:
        ImproperlyConfigured: the file cannot be written.
    """
    logging.addLevelName(TRACE, "TRACE")
    level = LEVELS[options["level"]]
    formatter = JsonFormatter() if options["format"] == "json" else ConsoleFormatter()
    handlers: list[logging.Handler] = [StderrHandler()]
    if options.get("file"):
        handlers.append(_file_handler(Path(options["file"])))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        if isinstance(old, StderrHandler | FileHandler):
            old.close()
    for handler in handlers:
        handler.setFormatter(formatter)
        handler.addFilter(_stamp)
        handler.addFilter(_lowered)
        root.addHandler(handler)
    root.setLevel(level)
    for name in _WITH_HANDLERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        logger.setLevel(logging.NOTSET)
    for name, (usual, at_debug, at_trace) in _OTHERS.items():
        least = usual if level > logging.DEBUG else at_debug if level > TRACE else at_trace
        logging.getLogger(name).setLevel(max(least, level))
    logging.captureWarnings(True)


def _stamp(record: logging.LogRecord) -> bool:
    if not hasattr(record, "call_id"):
        record.call_id = call_id.get()
    if not hasattr(record, "trace_id"):
        record.trace_id = traces.trace_id()
    return True


def _lowered(record: logging.LogRecord) -> bool:
    """Requests with an invalid Host are not failures of the hub: Django logs them as errors."""
    if record.name.startswith("django.security.") and record.levelno == logging.ERROR:
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return record.levelno >= logging.getLogger().level


# ---- where it goes


class StderrHandler(logging.StreamHandler[IO[str]]):
    """Writes to the current `sys.stderr`."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    @override
    def handleError(self, record: logging.LogRecord) -> None:
        """Stay silent: without stderr, the failure cannot be reported."""


class FileHandler(logging.handlers.WatchedFileHandler):
    """Writes to a file that only its owner can read, and reopens it after logrotate has moved it."""

    def __init__(self, path: Path) -> None:
        self._reported = False
        super().__init__(path, encoding="utf-8", errors="backslashreplace")

    def _open(self) -> Any:
        return open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=_private)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # while reopening the file, which the standard library does not handle
            self.handleError(record)

    @override
    def handleError(self, record: logging.LogRecord) -> None:
        """Report the failure once; stderr gets the log lines as well."""
        error = sys.exc_info()[1]
        if not self._reported:
            self._reported = True
            with contextlib.suppress(Exception):
                sys.stderr.write(one_line(f"cannot write the log file {self.baseFilename}: {error}") + "\n")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _file_handler(path: Path) -> FileHandler:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileHandler(path)
    except OSError as error:
        raise ImproperlyConfigured(f"TOOLHUB_LOG_FILE: cannot write {path} ({error.strerror})") from error


# ---- what it looks like


class JsonFormatter(logging.Formatter):
    """One JSON object per line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields: dict[str, Any] = {
            "time": when.removesuffix("+00:00") + "Z",
            "level": _level(record),
            "logger": record.name,
            "message": _message(record),
        }
        if call := getattr(record, "call_id", ""):
            fields["call_id"] = str(call)
        if trace := getattr(record, "trace_id", ""):
            fields["trace_id"] = str(trace)
        if exception := _exception(record):
            fields["exception"] = exception
        for name, value in _extras(record).items():
            fields[f"{name}_" if name in fields else name] = value
        return _fitted(fields)


class ConsoleFormatter(logging.Formatter):
    """A short line for people; the lines of an exception follow, indented."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        extras = "".join(f" {name}={_word(value)}" for name, value in _extras(record).items())
        call = str(getattr(record, "call_id", ""))
        if call:
            # Failures have the whole id, for reports.
            call = f" call={call if record.levelno >= logging.WARNING else call[:8]}"
        message = one_line(_message(record))
        if trace := str(getattr(record, "trace_id", "")):
            call += f" trace={trace if record.levelno >= logging.WARNING else trace[:8]}"
        line = f"{moment} {_level(record).upper():5} {one_line(record.name)}: {message}{extras}{call}"
        lines = [line, *(f"    {one_line(part)}" for part in _exception(record).split("\n") if part)]
        return "\n".join(map(_line_cut, lines))


def _fitted(fields: dict[str, Any]) -> str:
    """The fields as JSON within the size limit of a line; the longest values are shortened."""
    line, limit = one_line_json(fields), MOST_BYTES
    while len(line.encode()) > MOST_BYTES:
        limit = limit * 3 // 4
        line = one_line_json({name: _shortened(value, limit) for name, value in fields.items()})
    return line


def _shortened(value: Any, limit: int) -> Any:
    """The value, cut to about `limit` bytes of JSON."""
    text = one_line_json(value)
    size = len(text.encode())
    if size <= limit:
        return value
    plain = value if isinstance(value, str) else text
    return _ends(plain, len(plain) * limit // size // 2)


def _line_cut(line: str) -> str:
    encoded = line.encode()
    if len(encoded) <= MOST_BYTES:
        return line
    return encoded[: MOST_BYTES - len(CUT.encode())].decode(errors="ignore") + CUT


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else one_line_json(value)
    return text if text.isascii() and text.isalnum() else one_line_json(text) if " " in text else one_line(text)


def _level(record: logging.LogRecord) -> str:
    return _NAMES.get(record.levelno) or str(record.levelname).lower()


def _message(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage().rstrip()
    except Exception as error:
        # Arguments that do not match the template, or cannot be converted to text.
        text = f"{record.msg if isinstance(record.msg, str) else '?'} [{type(error).__name__} in this log call]"
    return _cut(redacted_beginning(text, 2 * MOST_BYTES), len(text))


def _exception(record: logging.LogRecord) -> str:
    lines: list[str] = []
    with contextlib.suppress(Exception):
        if record.exc_info and record.exc_info[1] is not None:
            lines += traceback.format_exception(record.exc_info[1])
        if record.stack_info:
            lines.append(str(record.stack_info))
    # Both ends are kept: the outermost frames at the beginning, the exception at the end.
    return _ends(redacted_ends("".join(lines).rstrip(), 8 * MOST_BYTES), MOST_BYTES)


def _ends(text: str, length: int) -> str:
    return text if len(text) <= 2 * length else f"{text[:length]}\n{CUT}\n{text[len(text) - length :]}"


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    """The `extra` fields of a record, redacted and of bounded size."""
    extras = {name: value for name, value in vars(record).items() if name not in RESERVED and value is not None}
    if request := extras.pop("request", None):  # Django's: method and path instead of its repr
        extras |= {"method": getattr(request, "method", None), "path": getattr(request, "path", None)}
    try:
        fields: dict[str, Any] = redacted(dict(list(extras.items())[:MOST_EXTRAS]))
    except Exception as error:
        return {"extra": f"[{type(error).__name__} in this log call]"}
    for name, value in fields.items():
        if isinstance(value, str | list | dict) and len(text := one_line_json(value)) > MOST_BYTES // 4:
            fields[name] = _cut(value if isinstance(value, str) else text, len(text), MOST_BYTES // 4)
    return {one_line(name)[:MOST_NAME]: value for name, value in fields.items()}


def _cut(text: str, whole: int, limit: int = MOST_MESSAGE) -> str:
    """The text within `limit` bytes, with a mark if it was cut; `whole` is its original number of characters."""
    if whole * 4 <= limit:
        return text
    encoded = text.encode(errors="surrogatepass")
    if len(encoded) <= limit and whole <= 2 * MOST_BYTES:
        return text
    mark = f"{CUT} [cut, {whole} characters]"
    return encoded[: limit - len(mark.encode())].decode(errors="ignore") + mark
