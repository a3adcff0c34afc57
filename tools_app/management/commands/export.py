"""Write what operators have decided as a configuration file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from tools_app.management.hub_command import REFUSED, Abort, HubCommand
from tools_app.setup import configuration


class Command(HubCommand):
    help = (
        "Write sources, connections, toolsets, decisions about tools, rights of keys, alert rules and roles as YAML, "
        "without secrets. `toolhub apply` makes another hub, or this one, as the file says."
    )
    needs_variables = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--output", metavar="FILE", help="replace this file; default: stdout")

    def handle(self, *args: Any, output: str | None, **options: Any) -> None:
        content = configuration.written(configuration.exported())
        if output is None:
            self.stdout.write(content.decode(), ending="")
            return
        path = Path(output)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            draft.write_bytes(content)
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise Abort(f"cannot write {output}: {error.strerror}", REFUSED) from error
        self.tell(f"Written to {path.absolute()}")
