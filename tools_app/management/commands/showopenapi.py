"""Print the OpenAPI description of the REST API, as a running hub serves it at `/v1/openapi.json`."""

from __future__ import annotations

import json
from typing import Any

from tools_app.api import openapi
from tools_app.management.hub_command import HubCommand


class Command(HubCommand):
    help = "Print the OpenAPI 3.1 description of the REST API, for client generators."
    needs_ready = False

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(json.dumps(openapi.document(), indent=2, ensure_ascii=False))
