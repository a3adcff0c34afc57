"""One event is one line on stderr: readable, without secrets, and nothing can break it."""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from hypothesis import given, settings
from hypothesis import strategies as st

from tools_app.base import log_fields, logs
from tools_app.base.logs import MOST_BYTES, MOST_MESSAGE, ConsoleFormatter, JsonFormatter
from tools_app.sdk import levels

ROOT = Path(__file__).parent.parent
SECRET = "hunter2-Xy9"

Lines = Callable[[], list[str]]


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """A logger of ours; changes of its configuration are undone."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    others = {name: logging.getLogger(name) for name in ("django", *logs._OTHERS)}
    before = {name: (logger.level, logger.propagate, list(logger.handlers)) for name, logger in others.items()}
    yield logging.getLogger("tools_app.test")
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, (old_level, propagate, old_handlers) in before.items():
        others[name].setLevel(old_level)
        others[name].propagate = propagate
        others[name].handlers[:] = old_handlers


@pytest.fixture
def lines(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> Lines:
    """What has been written to stderr since the last look; nothing may ever be on stdout."""

    def read() -> list[str]:
        captured = capsys.readouterr()
        assert captured.out == ""
        return captured.err.splitlines()

    return read


def configure(level: str = "info", format: str = "json", file: Path | None = None) -> None:
    logs.configure({"level": level, "format": format, "file": file})


def events(lines: Lines) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines()]


class TestJson:
    def test_an_event_has_time_level_logger_message_and_extras_under_their_names(
        self, log: logging.Logger, lines: Lines
    ) -> None:
        configure()
        log.info("Tool %s completed", "echo", extra={"tool": "echo", "ms": 3, "parts": [1, {"a": None}]})
        (event,) = events(lines)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event.pop("time"))
        assert event == {
            "level": "info",
            "logger": "tools_app.test",
            "message": "Tool echo completed",
            "tool": "echo",
            "ms": 3,
            "parts": [1, {"a": None}],
        }

    def test_an_exception_is_text_in_one_field(self, log: logging.Logger, lines: Lines) -> None:
        configure()
        try:
            raise ValueError(f"several\nlines and password={SECRET}")
        except ValueError:
            log.exception("boom")
        (event,) = events(lines)
        assert event["message"] == "boom"
        assert event["exception"].startswith("Traceback (most recent call last):\n")
        assert event["exception"].endswith("ValueError: several\nlines and password=***")
        assert SECRET not in json.dumps(event)

    def test_a_stack_is_logged_too(self, log: logging.Logger, lines: Lines) -> None:
        configure()
        log.info("here", stack_info=True)
        (event,) = events(lines)
        assert "test_a_stack_is_logged_too" in event["exception"]

    def test_an_extra_cannot_take_the_place_of_a_field(self, log: logging.Logger, lines: Lines) -> None:
        configure()
        log.info("x", extra={"time": 1, "level": 2, "logger": 3})
        (event,) = events(lines)
        assert (event["level"], event["logger"]) == ("info", "tools_app.test")
        assert (event["time_"], event["level_"], event["logger_"]) == (1, 2, 3)

    def test_an_extra_that_is_too_long_is_cut(self, log: logging.Logger, lines: Lines) -> None:
        configure()
        log.info("x", extra={"text": "y" * 4_000, "rows": list(range(1_000)), "short": "z"})
        (event,) = events(lines)
        assert event["text"].startswith("yyy")
        assert event["text"].endswith("… [cut, 4002 characters]")
        assert len(event["text"]) <= MOST_BYTES // 4
        assert event["rows"][:3] == [0, 1, 2]
        assert event["short"] == "z"

    def test_extras_are_limited_in_number(self, log: logging.Logger, lines: Lines) -> None:
        configure()
        log.info("x", extra={f"k{n}": n for n in range(100)})
        (event,) = events(lines)
        assert len([name for name in event if name.startswith("k")]) == 20


class TestConsole:
    def test_an_event_is_a_short_line(self, log: logging.Logger, lines: Lines) -> None:
        configure(format="console")
        log.warning("Slow answer", extra={"tool": "echo", "ms": 3, "why": "two words", "parts": [1, 2]})
        (line,) = lines()
        expected = r'\d\d:\d\d:\d\d WARN  tools_app\.test: Slow answer tool=echo ms=3 why="two words" parts=\[1,2\]'
        assert re.fullmatch(expected, line)

    def test_the_lines_of_an_exception_follow_indented(self, log: logging.Logger, lines: Lines) -> None:
        configure(format="console")
        try:
            raise ValueError("first\n12:00:00 INFO  forged: line\x1b[2J")
        except ValueError:
            log.exception("boom")
        first, *others = lines()
        assert first.endswith("ERROR tools_app.test: boom")
        assert all(line.startswith("    ") for line in others)
        assert others[-1] == "    12:00:00 INFO  forged: line\\x1b[2J"

    def test_an_extra_cannot_look_like_two(self, log: logging.Logger, lines: Lines) -> None:
        configure(format="console")
        log.info("x", extra={"tool": 'a" admin=true', "b\nc": "d"})
        (line,) = lines()
        assert line.endswith(r'x tool="a\" admin=true" b\nc=d')


FORGERIES = {
    "newline": 'x\n{"level":"fatal","message":"forged"}',
    "carriage return": "x\r12:00:00 FATAL forged",
    "escape": "\x1b[2J\x1b]0;title\x07",
    "c1": "\x9b31m\x85",
    "separators": "a\u2028b\u2029c",
    "bidi": "user\u202egnp.exe\u2066\u2069",
    "surrogates": "\ud800\udfff",
    "tags": "\U000e0041\U000e0042",
    "zero": "a\x00b",
    "format": "%s %n %d {} {0.__class__} %(x)s",
    "much": "y" * 1_000_000,
    "much to escape": "\x1b" * 1_000_000,
    "much of many bytes": "\U000e0041" * 300_000,
}


@pytest.mark.parametrize("format", ["json", "console"])
@pytest.mark.parametrize("text", FORGERIES.values(), ids=FORGERIES)
def test_one_event_is_one_line_for_any_quoted_text(
    text: str, format: str, log: logging.Logger, lines: Lines, tmp_path: Path
) -> None:
    file = tmp_path / "hub.log"
    configure(format=format, file=file)
    log.info("called %s", text)
    log.info("called", extra={"query": text, "nested": {"a": [text]}})
    for written in (lines(), file.read_text(encoding="utf-8").splitlines()):
        assert len(written) == 2
        for line in written:
            assert line.isprintable()
            assert len(line.encode()) <= MOST_BYTES
            if format == "json":
                json.loads(line)


@pytest.mark.parametrize("text", FORGERIES.values(), ids=FORGERIES)
def test_an_exception_with_much_around_it_fits_into_its_lines(text: str, log: logging.Logger, lines: Lines) -> None:
    for format in ("json", "console"):
        configure(format=format)
        try:
            raise ValueError(text)
        except ValueError:
            log.exception(text, extra={f"{number}{text[:500]}": text for number in range(30)})
        written = lines()
        for line in written:
            assert line.isprintable()
            assert len(line.encode()) <= MOST_BYTES
        if format == "json":
            (event,) = map(json.loads, written)
            assert {"time", "level", "logger", "message", "exception"} <= event.keys()
        else:
            assert [line[:4] == "    " for line in written] == [False] + [True] * (len(written) - 1)


def test_of_what_does_not_fit_the_longest_gives_way(log: logging.Logger, lines: Lines) -> None:
    configure()
    try:
        raise ValueError("x" * MOST_BYTES)
    except ValueError:
        log.exception("boom", extra={"tool": "echo", "long": "y" * 1_000, "parts": list(range(100))})
    (event,) = events(lines)
    assert (event["message"], event["tool"], event["long"]) == ("boom", "echo", "y" * 1_000)
    assert event["parts"] == list(range(100))
    assert event["exception"].startswith("Traceback")
    assert event["exception"].endswith("x" * 1_000)
    assert "\n…\n" in event["exception"]


@pytest.mark.parametrize("format", ["json", "console"])
def test_a_long_message_is_cut_with_a_mark(format: str, log: logging.Logger, lines: Lines) -> None:
    configure(format=format)
    log.info("日本語" * 100_000)
    (line,) = lines()
    message = json.loads(line)["message"] if format == "json" else line.split(": ", 1)[1]
    assert message.endswith("… [cut, 300000 characters]")
    assert MOST_MESSAGE - 3 <= len(message.encode()) <= MOST_MESSAGE


def test_a_message_that_just_fits_is_not_cut(log: logging.Logger, lines: Lines) -> None:
    configure()
    log.info("x" * MOST_MESSAGE)
    log.info("x" * (MOST_MESSAGE + 1))
    whole, cut = events(lines)
    assert whole["message"] == "x" * MOST_MESSAGE
    assert cut["message"].endswith(f"[cut, {MOST_MESSAGE + 1} characters]")


def test_of_a_long_exception_beginning_and_end_are_kept(log: logging.Logger, lines: Lines) -> None:
    configure()
    try:
        raise ValueError("x" * 1_000_000 + " the end")
    except ValueError:
        log.exception("boom")
    (event,) = events(lines)
    assert event["exception"].startswith("Traceback")
    assert event["exception"].endswith(" the end")
    assert len(event["exception"]) > MOST_BYTES // 2


@pytest.mark.parametrize("format", ["json", "console"])
def test_secrets_are_masked_in_every_position(format: str, log: logging.Logger, lines: Lines) -> None:
    configure(format=format)
    log.info("sent %s", {"X-N8N-API-KEY": SECRET, "Authorization": f"Bearer {SECRET}"})
    log.info("GET https://ann:%s@host/x?access_token=%s&n=1", SECRET, SECRET)
    log.info("x", extra={"api_key": SECRET, "headers": {"Cookie": SECRET}, "url": f"https://a:{SECRET}@h"})
    try:
        raise RuntimeError(f"Authorization: Bearer {SECRET}")
    except RuntimeError as error:
        log.exception("upstream: %s", error)  # noqa: TRY401 – what is tested
    text = "\n".join(lines())
    assert SECRET not in text
    assert text.count("***") >= 7


def test_a_secret_is_masked_where_a_message_is_cut(log: logging.Logger, lines: Lines) -> None:
    configure()
    for padding in range(MOST_BYTES - 60, MOST_BYTES):
        log.info("%s https://ann:%s@h.test/", "x" * padding, SECRET)
    assert not [event for event in events(lines) if "ann" in event["message"] or "hunter" in event["message"]]


def test_a_secret_is_masked_where_much_was_masked_before_it(log: logging.Logger, lines: Lines) -> None:
    configure()
    much = f"https://ann:{SECRET * 40}@h.test/ " * 2_000
    log.info(much)
    try:
        raise ValueError(much)
    except ValueError:
        log.exception("boom")
    for event in events(lines):
        assert "ann" not in json.dumps(event)
        assert "hunter2" not in json.dumps(event)


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError("no")


class Evil(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no")


@pytest.mark.parametrize("format", ["json", "console"])
@pytest.mark.parametrize(
    ("message", "arguments", "extra"),
    [
        ("%d", ("x",), {}),
        ("%s %s", ("x",), {}),
        ("%s", ("x", "y"), {}),
        ("%(a)s", ({"b": 1},), {}),
        ("100%", ("x",), {}),
        ("%s", (Unprintable(),), {}),
        (Unprintable(), (), {}),
        (ValueError("an exception as the message"), (), {}),
        (None, (), {}),
        ("x", (), {"thing": Unprintable()}),
        ("x", (), {"thing": Evil(a=1)}),
        ("x", (), {"call_id": 5}),
    ],
    ids=range(12),
)
def test_nothing_that_is_logged_can_raise(
    message: Any, arguments: tuple[Any, ...], extra: dict[str, Any], format: str, log: logging.Logger, lines: Lines
) -> None:
    configure(format=format)
    log.info(message, *arguments, extra=extra)
    assert len(lines()) == 1


def test_a_record_with_a_strange_exception_is_still_written(log: logging.Logger, lines: Lines) -> None:
    configure()
    for exc_info in ((None, None, None), (ValueError, None, None), ("x", "y", "z")):
        log.handle(logging.makeLogRecord({"name": "x", "msg": "m", "levelno": 40, "exc_info": exc_info}))
    assert [event["message"] for event in events(lines)] == ["m", "m", "m"]


@given(st.text(st.characters(exclude_categories=())), st.dictionaries(st.text(min_size=1), st.text()))
@settings(max_examples=200, deadline=None)
def test_any_text_gives_one_line_in_both_formats(text: str, extra: dict[str, str]) -> None:
    record = logging.makeLogRecord({"name": "tools_app.x", "levelno": 20, "msg": "%s", "args": (text,)})
    vars(record).update({f"x{name}": value for name, value in extra.items()})
    for formatter in (JsonFormatter(), ConsoleFormatter()):
        line = formatter.format(record)
        assert line.splitlines() == [line]
        line.encode()
    json.loads(JsonFormatter().format(record))


LEVELS = ["fatal", "error", "warn", "info", "debug", "trace"]
NUMBERS = [logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, 5]


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_lets_through_itself_and_what_is_worse(level: str, log: logging.Logger, lines: Lines) -> None:
    configure(level)
    for number in NUMBERS:
        log.log(number, "x")
    assert [event["level"] for event in events(lines)] == LEVELS[: LEVELS.index(level) + 1]


def test_trace_has_a_name_of_its_own() -> None:
    configure_again = logging.getLevelName(levels.TRACE)
    assert configure_again == "TRACE"


class TestLoggersOfOthers:
    @pytest.mark.parametrize(
        ("name", "number", "levels"),
        [
            ("uvicorn.access", logging.INFO, set()),
            ("uvicorn.error", logging.INFO, {"debug", "trace"}),
            ("uvicorn.error", logging.WARNING, {"warn", "info", "debug", "trace"}),
            ("uvicorn", logging.WARNING, {"warn", "info", "debug", "trace"}),
            ("django.server", logging.INFO, {"debug", "trace"}),
            ("django.request", logging.WARNING, {"warn", "info", "debug", "trace"}),
            ("django.db.backends", logging.DEBUG, set()),
            ("httpx", logging.INFO, set()),
            ("httpcore2.http11", logging.DEBUG, set()),
            ("mcp.server.lowlevel", logging.INFO, {"debug", "trace"}),
            ("mcp.server.lowlevel", logging.DEBUG, {"trace"}),
            ("asyncio", logging.DEBUG, {"trace"}),
            ("a.library", logging.INFO, {"info", "debug", "trace"}),
        ],
    )
    def test_say_as_much_as_is_good(self, name: str, number: int, levels: set[str], lines: Lines) -> None:
        heard = set()
        for level in LEVELS:
            configure(level)
            logging.getLogger(name).log(number, "x")
            if lines():
                heard.add(level)
        assert heard == levels

    def test_write_through_us_and_only_once(self, lines: Lines) -> None:
        for name in ("django", "django.server", "uvicorn", "uvicorn.access", "uvicorn.error"):
            logger = logging.getLogger(name)
            logger.addHandler(logging.StreamHandler(sys.stdout))
            logger.propagate = False
        configure("debug")
        for name in ("django", "django.request", "django.server", "uvicorn", "uvicorn.access", "uvicorn.error"):
            logging.getLogger(name).error("x")
        assert len(lines()) == 6

    def test_a_request_of_django_is_logged_by_method_and_path(self, lines: Lines, rf: Any) -> None:
        configure()
        request = rf.get("/v1/tools", {"token": SECRET})
        logging.getLogger("django.request").warning("Not Found", extra={"status_code": 404, "request": request})
        (event,) = events(lines)
        assert (event["method"], event["path"], event["status_code"]) == ("GET", "/v1/tools", 404)
        assert SECRET not in json.dumps(event)

    def test_warnings_become_events(self, lines: Lines) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.captureWarnings(False)
            configure()
            warnings.warn("careful", RuntimeWarning, stacklevel=1)
            logging.captureWarnings(False)
        (event,) = events(lines)
        assert (event["logger"], event["level"]) == ("py.warnings", "warn")
        assert "RuntimeWarning: careful" in event["message"]
        assert not event["message"].endswith("\n")


class TestTheCallId:
    def test_is_on_every_record_made_during_a_call(self, log: logging.Logger, lines: Lines) -> None:
        configure()
        token = log_fields.call_id.set("c0ffee")
        log.info("inside")
        logging.getLogger("a.library").info("inside")
        log_fields.call_id.reset(token)
        log.info("outside")
        assert [event.get("call_id") for event in events(lines)] == ["c0ffee", "c0ffee", None]

    def test_is_short_on_the_console(self, log: logging.Logger, lines: Lines) -> None:
        configure(format="console")
        token = log_fields.call_id.set("0123456789abcdef")
        log.info("inside")
        log_fields.call_id.reset(token)
        assert lines()[0].endswith(" inside call=01234567")

    def test_is_each_threads_own(self, log: logging.Logger, lines: Lines) -> None:
        configure()

        def work(number: int) -> None:
            log_fields.call_id.set(f"call{number}")
            log.info("%d", number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {event["message"]: event["call_id"] for event in events(lines)} == {str(n): f"call{n}" for n in range(8)}


class TestTheFile:
    def test_gets_the_same_lines_as_stderr(self, log: logging.Logger, lines: Lines, tmp_path: Path) -> None:
        file = tmp_path / "hub.log"
        configure(file=file)
        log.info("日本語 \ud800")
        assert file.read_text(encoding="utf-8").splitlines() == lines()

    def test_can_be_read_by_its_owner_only(self, log: logging.Logger, tmp_path: Path) -> None:
        file = tmp_path / "state" / "logs" / "hub.log"
        configure(file=file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    def test_is_appended_to(self, log: logging.Logger, tmp_path: Path) -> None:
        file = tmp_path / "hub.log"
        file.write_text("before\n")
        configure(file=file)
        log.info("after")
        assert file.read_text().startswith("before\n{")

    def test_is_opened_anew_after_logrotate_moved_it_away(self, log: logging.Logger, tmp_path: Path) -> None:
        file = tmp_path / "hub.log"
        configure(file=file)
        log.info("one")
        file.rename(tmp_path / "hub.log.1")
        log.info("two")
        assert [json.loads(line)["message"] for line in (tmp_path / "hub.log.1").read_text().splitlines()] == ["one"]
        assert [json.loads(line)["message"] for line in file.read_text().splitlines()] == ["two"]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600

    def test_that_cannot_be_opened_stops_the_start_with_the_settings_name(
        self, log: logging.Logger, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_text("")
        before = list(logging.getLogger().handlers)
        for path in (tmp_path, tmp_path / "file" / "hub.log"):
            with pytest.raises(
                ImproperlyConfigured, match=rf"^TOOLHUB_LOG_FILE: cannot write {re.escape(str(path))} \("
            ):
                configure(file=path)
        assert logging.getLogger().handlers == before

    def test_that_goes_away_is_complained_about_once_and_stops_nothing(
        self, log: logging.Logger, lines: Lines, tmp_path: Path
    ) -> None:
        file = tmp_path / "logs" / "hub.log"
        configure(file=file)
        file.unlink()
        file.parent.rmdir()
        log.info("one")
        log.info("two")
        first, complaint, second = lines()
        assert (json.loads(first)["message"], json.loads(second)["message"]) == ("one", "two")
        assert complaint.startswith(f"cannot write the log file {file}: ")
        file.parent.mkdir()
        log.info("three")
        assert json.loads(file.read_text())["message"] == "three"


def test_configuring_again_replaces_what_was_there(log: logging.Logger, lines: Lines, tmp_path: Path) -> None:
    configure("error", "console", tmp_path / "old.log")
    logging.getLogger().addHandler(logging.StreamHandler(sys.stdout))
    configure("info", "json")
    log.info("x")
    assert len(events(lines)) == 1
    assert (tmp_path / "old.log").read_text() == ""


def test_without_stderr_a_log_call_still_does_not_raise(log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    configure()
    monkeypatch.setattr(sys, "stderr", None)
    log.error("x")


SCRIPT = """
import logging, sys
import django
from django.conf import settings
settings.configure(
    LOGGING_CONFIG="tools_app.base.logs.configure",
    LOGGING={"level": "info", "format": "json", "file": None},
    DEBUG=True,
)
django.setup()
logging.getLogger("django.request").warning("Not Found: %s", "/x\\n/y")
logging.getLogger("tools_app").info("日本語 \\ud800")
logging.getLogger("tools_app").debug("too much")
"""


def test_in_a_process_of_its_own_stdout_stays_empty_and_lines_are_events() -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii:backslashreplace"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, check=True)
    assert done.stdout == b""
    messages = [json.loads(line)["message"] for line in done.stderr.decode().splitlines()]
    assert messages == ["Not Found: /x\n/y", "日本語 \\ud800"]


@pytest.mark.parametrize(("level", "shown"), [("info", True), ("warn", True), ("error", False)])
def test_what_strangers_send_is_no_error_of_the_hub(
    log: logging.Logger, capsys: pytest.CaptureFixture[str], level: str, shown: bool
) -> None:
    logs.configure({"level": level, "format": "console"})

    logging.getLogger("django.security.DisallowedHost").error("Invalid HTTP_HOST header: 'evil.example'")

    told = capsys.readouterr().err
    assert ("WARN" in told and "evil.example" in told) is shown
    assert "ERROR" not in told
