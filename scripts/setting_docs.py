"""Writes `.env.example` and the tables in docs/settings.md from the table of settings (`make settings`)."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools_app.base.setting_table import GROUPS, Group, Setting  # noqa: E402

EXAMPLE: Final = ROOT / ".env.example"
PAGE: Final = ROOT / "docs/settings.md"
BEGIN: Final = "<!-- begin: settings, written by `make settings` -->\n"
END: Final = "<!-- end: settings -->\n"
WIDTH: Final = 120
HEAD: Final = """\
# All settings of the hub, written by `make settings`. Copy to .env, and remove the # before those that you change.
# Lists are separated by commas. To read a value from a file, set NAME_FILE instead of NAME.
# `toolhub settings` shows the values in force, and where each comes from.
"""
FOOT: Final = """
# --- traces ---
# OpenTelemetry's own variables, for the extra `traces` (docs/traces.md); the address of a collector switches them on
# OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
# OTEL_TRACES_SAMPLER=traceidratio
# OTEL_TRACES_SAMPLER_ARG=0.1

# --- accounts at upstreams ---
# Each pack with an upstream has its own variables for address and key: `toolhub doctor` and the admin name missing
# ones, and docs/packs/ describes them. In addition each has NAME_ALLOW_HTTP=true (plain http beyond this machine), and
# also the flag NAME_READ_ONLY=true (tools that write are refused) and NAME_TIMEOUT_MS=30000 (per request, 100 to
# 120000). An invalid value stops the start, like everywhere in this file. Add further accounts in the admin.
#   REDMINE_HOST=https://example.org/redmine    Redmine's address; also set REDMINE_API_KEY
#   REDMINE_USER_ADMINISTRATION=true            its users can be changed through this account

# n8n (docs/packs/n8n.md): its address as in the browser, and a key from its settings, under "n8n API"
# N8N_URL=http://localhost:5678
# N8N_API_KEY=
# below TOOLHUB_FILE_ROOT: what `n8n export:nodes` has written, for documentation of node types
# N8N_NODE_TYPES=n8n-nodes.json
"""


def example() -> str:
    """The content of `.env.example`."""
    lines = [HEAD.rstrip()]
    for group in GROUPS:
        lines += ["", f"# --- {group.title} ---"]
        for setting in _documented(group):
            lines += _commented(setting)
    return "\n".join(lines) + "\n" + FOOT


def _documented(group: Group) -> Iterator[Setting]:
    return (setting for setting in group.settings if not setting.deprecated)


def _commented(setting: Setting) -> list[str]:
    default = "" if setting.default_text else setting.shown_default
    text = f"{setting.help_text}; default: {setting.default_text}" if setting.default_text else setting.help_text
    indent = "# "
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [*lines, f"#{setting.name}={default}"]


def tables() -> str:
    """The tables of docs/settings.md."""
    return "\n".join("\n".join(_table(group)) + "\n" for group in GROUPS)


def _table(group: Group) -> Iterator[str]:
    yield f"| {group.title} | default | |"
    yield "|---|---|---|"
    for setting in _documented(group):
        default = setting.default_text or (f"`{setting.shown_default}`" if setting.shown_default else "")
        yield f"| `{setting.name}` | {default} | {setting.help_text} |"


def page(text: str) -> str:
    """The page with its tables replaced."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def main() -> None:
    EXAMPLE.write_text(example(), encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
