"""What the list of tools costs an agent of a hub with n8n and Redmine: in each detail, by pack.

    python benchmarks/lists.py

`read` is what models are shown of a tool: name, description and parameters. `whole` adds the form of its answers
and the labels for clients. Tokens are bytes / 3.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
# Not the directory of the benchmarks: there is another mcp in it.
sys.path[0] = str(CHECKOUT)

# Nobody answers there: listing asks no upstream.
ENVIRONMENT = {
    "N8N_URL": "http://127.0.0.1:9",
    "N8N_API_KEY": "none",
    "REDMINE_HOST": "http://127.0.0.1:9",
    "REDMINE_API_KEY": "none",
}


async def _measured() -> None:
    from tools_app import engine
    from tools_app.access import access
    from tools_app.catalog import catalog, listed
    from tools_app.sdk.reach import Detail, Reach

    engine.adopt_running_loop()
    view = (await catalog.fresh()).seen_by(access.caller_of_process(Reach(mode="direct")))
    entries = listed.listed(view)
    numbers = Counter(entry.pack for entry in entries)
    print(
        f"{'pack':<12}{'tools':>7}", *(f"{detail + ', ' + part:>16}" for detail in Detail for part in ("read", "whole"))
    )
    for pack in (*sorted(numbers), ""):
        row = []
        for detail in Detail:
            read = whole = 0
            for entry in entries:
                if pack in ("", entry.pack):
                    shown = replace(entry, own_detail=detail.value)
                    read += listed.costs_of_parts(shown)["read"]
                    whole += listed.cost(shown)
            row += [read, whole]
        print(f"{pack or 'all':<12}{numbers[pack] or len(entries):>7}", *(f"{tokens:>16,}" for tokens in row))
    await engine.close(2)


def main() -> None:
    os.environ.update(ENVIRONMENT, DJANGO_SETTINGS_MODULE="toolhub.settings", LOG_LEVEL="error")
    with tempfile.TemporaryDirectory() as home:
        os.environ["TOOLHUB_HOME"] = home
        import django

        django.setup()
        from tools_app.setup import installation

        installation.require_ready(lambda line: None)
        asyncio.run(_measured())


if __name__ == "__main__":
    main()
