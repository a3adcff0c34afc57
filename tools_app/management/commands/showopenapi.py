"""Print the description of the REST door, as a running hub gives it at `/v1/openapi.json`."""

from __future__ import annotations

import json
from typing import Any

from tools_app.api import openapi
from tools_app.management.hub_command import HubCommand


class Command(HubCommand):
    help = "Print what can be asked of the REST door, as OpenAPI 3.1, for programs that make clients of it."
    needs_ready = False

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(json.dumps(openapi.document(), indent=2, ensure_ascii=False))
