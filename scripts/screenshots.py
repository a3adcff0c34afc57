"""Takes the pictures of the documentation: a Chromium goes through the demo, in light, in dark and on a phone.

    make screenshots      writes docs/screenshots/

Needs what `make setup-browser` installs. The pictures are small: the demo's data is the same every time, but its
times are those of today, so every run changes them a little.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, sync_playwright

CHECKOUT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = CHECKOUT / "docs" / "screenshots"
CHROMIUMS: Final = ("chromium", "chromium-browser", "google-chrome")
MOST_BYTES: Final = 150_000
SIGNED_IN: Final = re.compile(r"(http://localhost:\d+)/admin/\s+(\S+) / (\S+)")

# Few enough to be looked at: the address of each page, and how it is shown.
PAGES: Final = {
    "overview": ("/admin/?since=7d", ("light", "dark", "phone")),
    "tools": ("/admin/tools_app/toolrecord/", ("light", "dark", "phone")),
    "tool": ("/admin/tools_app/toolrecord/named/?name=stock_level", ("light",)),
    "errors": ("/admin/tools_app/errorgroup/", ("light",)),
    "approvals": ("/admin/tools_app/approval/", ("phone",)),
    "agents": ("/admin/tools_app/agent/", ("light",)),
}
# Where this machine has its files is nothing for a picture.
WITHOUT_PLACES: Final = """(place) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(place, "");
}"""
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "light": {"viewport": {"width": 1366, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1366, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


def main() -> int:
    command = [sys.executable, "-m", "toolhub", "demo"]
    demo = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    try:
        for line in demo.stdout:
            if found := SIGNED_IN.search(line):
                take(*found.groups())
                return 0
        return 1
    finally:
        demo.terminate()
        demo.wait()


def take(url: str, user: str, password: str) -> None:
    named = os.environ.get("TOOLHUB_TEST_CHROMIUM")
    path = next(filter(None, map(shutil.which, (named,) if named else CHROMIUMS)), None)
    if path is None:
        raise SystemExit("there is no Chromium on this machine; `make setup-browser` installs one")
    TARGET.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        # Chromium refuses its own sandbox to root.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        chromium = playwright.chromium.launch(executable_path=path, args=options)
        for look in LOOKS:
            _look(chromium, look, url, user, password)
        chromium.close()


def _look(chromium: Browser, look: str, url: str, user: str, password: str) -> None:
    context = chromium.new_context(**LOOKS[look], locale="en-GB")
    page = context.new_page()
    page.goto(f"{url}/admin/")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", password)
    page.click("button[type=submit]")
    page.wait_for_url("**/admin/")
    for name, (address, looks) in PAGES.items():
        if look not in looks:
            continue
        page.goto(url + address, wait_until="load")
        page.evaluate(WITHOUT_PLACES, f"{CHECKOUT}/")
        target = TARGET / f"{name}-{look}.png"
        page.screenshot(path=target)
        if target.stat().st_size > MOST_BYTES:
            # A picture that is too heavy for a repository says little more than one with fewer colours.
            page.screenshot(path=target.with_suffix(".jpg"), type="jpeg", quality=70)
            target.unlink()
    context.close()


if __name__ == "__main__":
    sys.exit(main())
