"""Everything that the REST door can be asked, as the door itself knows it."""

from __future__ import annotations

from collections.abc import Iterator

from tools_app.api import api

NAMES = {
    "{name}": "echo",
    "{group_id}": "1",
    "{call_id}": "0" * 32,
    "{key_id}": "1",
    "{toolset}": "x",
    "{connection_id}": "main",
    "{source_name}": "tests.support.packs.small",
    "{approval_id}": "0" * 32,
    "{standing_id}": "0" * 32,
    "{definition_id}": "1",
    "{alert_id}": "0" * 32,
    "{rule_id}": "1",
    "{delivery_id}": "0" * 32,
}


def operations(*, with_body: bool = False) -> Iterator[tuple[str, str]]:
    """Method and address of every operation, or of those that take a body."""
    for prefix, router in api._routers:
        for path, view in router.path_operations.items():
            address = f"/{prefix}{path}"
            for placeholder, value in NAMES.items():
                address = address.replace(placeholder, value)
            assert "{" not in address, "give the new placeholder a value"
            for operation in view.operations:
                if not with_body or any(model.__ninja_param_source__ == "body" for model in operation.models):
                    yield from ((method, address) for method in operation.methods)
