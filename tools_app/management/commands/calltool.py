"""Call a tool from the shell, on the same path as every other call."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from django.core.management.base import CommandParser

from tools_app import engine
from tools_app.access import access
from tools_app.management.hub_command import Abort, HubCommand, add_connection_option, through
from tools_app.sdk.errors import ToolDisabledError, ToolError, ToolNotFoundError, ValidationError
from tools_app.sdk.reach import Reach
from tools_app.text import json_text
from tools_app.text.json_text import JsonError

FAILED, WRONG_USE, NOT_AVAILABLE = 1, 2, 3


class Command(HubCommand):
    help = (
        "Call a tool and print its answer. Exits with 0, or 1 when the tool failed, 2 when the arguments are wrong, "
        "3 when the tool does not exist or cannot be called."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the tool's name")
        parser.add_argument("arguments", nargs="?", default="{}", help='a JSON object, or "-" to read one from stdin')
        parser.add_argument("--timeout", type=int, metavar="MS", help="time limit in milliseconds")
        parser.add_argument("--answer-tokens", type=int, metavar="N", help="replace a larger answer by its outline")
        parser.add_argument(
            "--fields", nargs="+", default=[], metavar="PATH", help="only these parts of the result, like /issues/*/id"
        )
        parser.add_argument("--approval", metavar="ID", help="the approval for this call")
        add_connection_option(parser)
        parser.add_argument(
            "--dry-run", action="store_true", help="validate and show what would be called, but do not call it"
        )

    def handle(
        self,
        *args: Any,
        name: str,
        arguments: str,
        timeout: int | None,
        answer_tokens: int | None,
        fields: list[str],
        approval: str | None,
        connections: list[str] | None,
        dry_run: bool,
        **options: Any,
    ) -> None:
        if options["verbosity"] < 2:
            # The error is printed below; -v 2 shows the log as well.
            logging.getLogger("tools_app").setLevel(logging.CRITICAL)
        parameters = _parse_arguments(sys.stdin.read() if arguments == "-" else arguments)
        caller = access.caller_of_process(Reach(connections=through(connections)))
        settings = engine.Options(
            timeout_ms=timeout, answer_tokens=answer_tokens, dry_run=dry_run, approval=approval, fields=fields
        )
        try:
            result = engine.call_sync(name, parameters, caller, door="command", options=settings)
        except ToolError as error:
            for problem in error.details[1:]:
                self.stderr.write(f"toolhub: also: {problem.message}")
            detail = error.context.get("reason") or error.context.get("errorDetails") or ""
            reason = detail if isinstance(detail, str) else json.dumps(detail, ensure_ascii=False, default=str)
            parts = (error.message.rstrip("."), reason.rstrip(".") and f": {reason.rstrip('.')}", ".")
            message = " ".join(filter(None, ("".join(parts), error.next_step)))
            if error.error_id:
                message += f" (errorId {error.error_id})"
            raise Abort(message, _exit_code(error)) from error
        finally:
            asyncio.run(engine.close(2))
        answer = result.answer
        self.stdout.write(json.dumps(answer.value, indent=2, ensure_ascii=False) if dry_run else answer.text)


def _parse_arguments(text: str) -> dict[str, Any]:
    try:
        arguments = json_text.parsed(text.encode(errors="surrogatepass"))
    except JsonError as error:
        raise Abort(f"the arguments are not JSON: {error}", WRONG_USE) from error
    if not isinstance(arguments, dict):
        raise Abort('the arguments must be a JSON object, like \'{"message": "hi"}\'', WRONG_USE)
    return arguments


def _exit_code(error: ToolError) -> int:
    if isinstance(error, ToolNotFoundError | ToolDisabledError):
        return NOT_AVAILABLE
    return WRONG_USE if isinstance(error, ValidationError) else FAILED
