"""`toolhub COMMAND` and `python -m toolhub COMMAND`: the same as `manage.py COMMAND`, from any directory."""

from __future__ import annotations

import gc
import os
import sys
import traceback

REFUSED = 2


def main(arguments: list[str] | None = None) -> None:
    argv = ["toolhub", *(sys.argv[1:] if arguments is None else arguments)]
    if argv[1:2] == ["demo"]:
        # Before the settings are read: it has a home of its own.
        from toolhub.demo.__main__ import main as demo

        raise SystemExit(demo(argv[2:]))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")
    if argv[1:2] == ["runmcp"]:
        _run_for_agent(argv)
    elif trouble := _run(argv):
        _say(trouble)
        raise SystemExit(REFUSED)


def _run_for_agent(argv: list[str]) -> None:
    # First, so that no later import can print into the protocol.
    from tools_app.mcp_server import closed, wire

    wire.claim()
    os.environ["TOOLHUB_PROCESS"] = "runmcp"
    # For a faster start: imports create many objects and no garbage. The command enables it again.
    gc.disable()
    try:
        trouble = _run(argv)
    except Exception:
        traceback.print_exc()
        trouble = ["it failed to start; see stderr, which the client logs"]
    if trouble:
        _say(trouble)
        closed.refuse(*wire.descriptors(), "; ".join(trouble))
        raise SystemExit(REFUSED)


def _run(argv: list[str]) -> list[str]:
    """Run a command. Returns the lines of an error that prevented it."""
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import CommandError, execute_from_command_line

    try:
        execute_from_command_line(argv)
    except (ImproperlyConfigured, CommandError) as error:
        return str(error).splitlines()
    return []


def _say(lines: list[str]) -> None:
    for line in lines:
        sys.stderr.write(f"toolhub: {line}\n")


if __name__ == "__main__":
    main()
