"""`toolhub COMMAND` and `python -m toolhub COMMAND`: what `manage.py COMMAND` does, from anywhere."""

from __future__ import annotations

import gc
import os
import sys


def main(arguments: list[str] | None = None) -> None:
    argv = ["toolhub", *(sys.argv[1:] if arguments is None else arguments)]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "toolhub.settings")
    if argv[1:2] == ["runmcp"]:
        # First of all: nothing that is imported from here on may print into the protocol.
        from tools_app.mcp_server import wire

        wire.claim()
        os.environ["TOOLHUB_PROCESS"] = "runmcp"
        # An agent waits: imports make many objects and no garbage. The command switches it on again.
        gc.disable()
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(argv)
    except ImproperlyConfigured as error:
        for line in str(error).splitlines():
            sys.stderr.write(f"toolhub: {line}\n")
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
