"""Where the log goes and what it looks like. `configure` is Django's LOGGING_CONFIG.

Everything goes to stderr, since stdout belongs to the MCP protocol, and to a file where one is named. One event is
one line, whatever it quotes; secrets are masked; and a log call never raises, whatever it is given.
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
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from django.core.exceptions import ImproperlyConfigured
from typing_extensions import override

from tools_app.sdk.levels import LEVELS, TRACE
from tools_app.text.redaction import CUT, one_line, one_line_json, redacted, redacted_beginning, redacted_ends

# The call that is being served, on every record that is made while it is.
call_id: ContextVar[str] = ContextVar("call_id", default="")
# Method and path of the REST request that is being served; for the line of a call that fails.
request: ContextVar[tuple[str, str]] = ContextVar("request", default=("", ""))

MOST_BYTES: Final = 8 * 1024  # in a line
MOST_MESSAGE: Final = 6 * 1024
MOST_EXTRAS: Final = 20
MOST_NAME: Final = 40

_NAMES: Final = {number: name for name, number in LEVELS.items()}
# Loggers of others that would say too much, at our levels info, debug and trace: messages with whole bodies,
# SQL with its values, headers, addresses with what people put into them.
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
    "uvicorn.access": (logging.WARNING, logging.WARNING, logging.WARNING),
    "uvicorn.error": (logging.WARNING, logging.INFO, logging.INFO),
}
# These come with handlers of their own: Django's defaults, and uvicorn's where somebody else configured it.
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
        own = usual if level > logging.DEBUG else at_debug if level > TRACE else at_trace
        logging.getLogger(name).setLevel(max(own, level))
    logging.captureWarnings(True)


def _stamp(record: logging.LogRecord) -> bool:
    if not hasattr(record, "call_id"):
        record.call_id = call_id.get()
    return True


def compact(value: Any) -> str:
    """JSON-like data as a log line may hold it: on one line, of bounded size, and without secrets."""
    return one_line_json(redacted(value))


def _lowered(record: logging.LogRecord) -> bool:
    """What strangers send is no failure of the hub: Django tells of a foreign Host as of an error."""
    if record.name.startswith("django.security.") and record.levelno == logging.ERROR:
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
    return record.levelno >= logging.getLogger().level


# ---- where it goes


class StderrHandler(logging.StreamHandler[IO[str]]):
    """Writes to what stderr is at that moment."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)

    @override
    def handleError(self, record: logging.LogRecord) -> None:
        """Stay silent: with stderr gone, nobody is left to tell."""


class FileHandler(logging.handlers.WatchedFileHandler):
    """Writes to a file that only its owner can read, and opens it anew after logrotate has moved it away."""

    def __init__(self, path: Path) -> None:
        self._complained = False
        super().__init__(path, encoding="utf-8", errors="backslashreplace")

    def _open(self) -> Any:
        return open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors, opener=_private)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # opening it anew, which the standard library leaves unguarded
            self.handleError(record)

    @override
    def handleError(self, record: logging.LogRecord) -> None:
        """Say once that the file does not take what stderr got as well."""
        error = sys.exc_info()[1]
        if not self._complained:
            self._complained = True
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
    """One JSON object a line, for machines."""

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
            # People who report a failure give the whole id.
            call = f" call={call if record.levelno >= logging.WARNING else call[:8]}"
        message = one_line(_message(record))
        line = f"{moment} {_level(record).upper():5} {one_line(record.name)}: {message}{extras}{call}"
        lines = [line, *(f"    {one_line(part)}" for part in _exception(record).split("\n") if part)]
        return "\n".join(map(_line_cut, lines))


def _fitted(fields: dict[str, Any]) -> str:
    """The fields as JSON that fits into a line: what is longest gives way."""
    line, limit = one_line_json(fields), MOST_BYTES
    while len(line.encode()) > MOST_BYTES:
        limit = limit * 3 // 4
        line = one_line_json({name: _shortened(value, limit) for name, value in fields.items()})
    return line


def _shortened(value: Any, limit: int) -> Any:
    """A value of which about `limit` bytes of JSON are left."""
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
        # Arguments that do not fit their template, or that cannot be turned into text.
        text = f"{record.msg if isinstance(record.msg, str) else '?'} [{type(error).__name__} in this log call]"
    return _cut(redacted_beginning(text, 2 * MOST_BYTES), len(text))


def _exception(record: logging.LogRecord) -> str:
    lines: list[str] = []
    with contextlib.suppress(Exception):
        if record.exc_info and record.exc_info[1] is not None:
            lines += traceback.format_exception(record.exc_info[1])
        if record.stack_info:
            lines.append(str(record.stack_info))
    # What was raised stands at the end, where it was raised at the beginning.
    return _ends(redacted_ends("".join(lines).rstrip(), 8 * MOST_BYTES), MOST_BYTES)


def _ends(text: str, length: int) -> str:
    return text if len(text) <= 2 * length else f"{text[:length]}\n{CUT}\n{text[len(text) - length :]}"


RESERVED: Final = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "call_id", "taskName", "exc_info", "exc_text"}
    | {"color_message"}  # uvicorn's message once more, with colours
)


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller of the log gave as `extra`, fit to be shown."""
    given = {name: value for name, value in vars(record).items() if name not in RESERVED and value is not None}
    if request := given.pop("request", None):  # Django's: the method and path say it better than its repr
        given |= {"method": getattr(request, "method", None), "path": getattr(request, "path", None)}
    try:
        shown: dict[str, Any] = redacted(dict(list(given.items())[:MOST_EXTRAS]))
    except Exception as error:
        return {"extra": f"[{type(error).__name__} in this log call]"}
    for name, value in shown.items():
        if isinstance(value, str | list | dict) and len(text := one_line_json(value)) > MOST_BYTES // 4:
            shown[name] = _cut(value if isinstance(value, str) else text, len(text), MOST_BYTES // 4)
    return {one_line(name)[:MOST_NAME]: value for name, value in shown.items()}


def _cut(text: str, whole: int, limit: int = MOST_MESSAGE) -> str:
    """As much of a text that once had `whole` characters as `limit` bytes hold, marked where something is missing."""
    if whole * 4 <= limit:
        return text
    encoded = text.encode(errors="surrogatepass")
    if len(encoded) <= limit and whole <= 2 * MOST_BYTES:
        return text
    mark = f"{CUT} [cut, {whole} characters]"
    return encoded[: limit - len(mark.encode())].decode(errors="ignore") + mark
