"""Cuts the theme's fonts down to what pages show: Latin text in two weights, and the icons that templates name.

    pip install fonttools brotli; python scripts/fonts.py      writes tools_app/static/tools_app/fonts/

Run it with a new version of the theme, or after adding an icon. `make test-browser` fails on an icon that is missing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = CHECKOUT / "tools_app" / "static" / "tools_app" / "fonts"
# What `theme.css` declares for these files; for other characters a browser loads the theme's own.
LATIN: Final = "U+20-7E,U+A0-FF,U+2010-203A,U+20AC,U+2122,U+2190-2193,U+2212,U+2264,U+2265"
WEIGHTS: Final = ("Regular", "SemiBold")
# In templates, in the menu, and the hub's own symbol.
ICON: Final = re.compile(
    r'material-symbols-outlined[^>]*>(.*?)</span|_\("[^"]+"\), "(\w+)"|_SYMBOL": "(\w+)', re.DOTALL
)


def main() -> None:
    spec = find_spec("unfold")
    assert spec is not None
    assert spec.origin is not None
    theme = Path(spec.origin).parent
    inter, symbols = theme / "static/unfold/fonts/inter", theme / "static/unfold/fonts/material-symbols"
    for weight in WEIGHTS:
        features = "--layout-features=calt,ccmp,kern,locl,mark,mkmk,tnum"
        _subset(inter / f"Inter-{weight}.woff2", f"--unicodes={LATIN}", features)
    shutil.copy(inter / "LICENSE", TARGET / "Inter-LICENSE")
    sources = [*(CHECKOUT / "templates").rglob("*.html"), *theme.rglob("*.html"), CHECKOUT / "toolhub/unfold.py"]
    texts = " ".join("".join(groups) for path in sources for groups in ICON.findall(path.read_text()))
    icons = sorted(set(re.findall(r"\b[a-z_0-9]{3,}\b", re.sub(r"{{.*?}}|{%.*?%}", " ", texts))))
    # Ligatures of letters: following them from the letters would keep all icons.
    options = (
        "--ignore-missing-glyphs",
        "--text=abcdefghijklmnopqrstuvwxyz_0123456789",
        "--no-layout-closure",
        "--layout-features=liga,rlig",
    )
    _subset(symbols / "Material-Symbols-Outlined.woff2", f"--glyphs={','.join(icons)}", *options)
    shutil.copy(symbols / "LICENSE", TARGET / "Material-Symbols-LICENSE")


def _subset(font: Path, *options: str) -> None:
    command = ["pyftsubset", str(font), "--flavor=woff2", f"--output-file={TARGET / font.name}", *options]
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
