"""A real hub, filled with what two weeks leave behind, and a Chromium that looks at it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserType, Page, StorageState, sync_playwright

from tests.browser import desk as desks
from tests.browser.desk import Desk
from tests.packs.n8n.fake import N8n
from tests.support.processes import Home, Server, key_in
from tests.support.redmine import FakeRedmine
from toolhub.demo import __main__ as demo

PASSWORD = "browser-tests-1"
TOOLS = Path(__file__).with_name("tools")
COLLEAGUES = f"""
from django.contrib.auth.models import Group, User
for role in ("viewer", "operator"):
    User.objects.create_user(role, password="{PASSWORD}", is_staff=True).groups.add(Group.objects.get(name=role))
"""
SitDown = Callable[..., Desk]
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
    # The hub is one for all; what fills it with nonsense comes last.
    items.sort(key=lambda item: "stuffed" in getattr(item, "fixturenames", ()))


@pytest.fixture(autouse=True)
def fresh_hub() -> None:
    """The hub is a process of its own here; this one only holds the browser."""


def launched(kind: BrowserType) -> Browser:
    """A Chromium that has seen nothing yet."""
    named = os.environ.get("TOOLHUB_TEST_CHROMIUM")
    path = next(filter(None, map(shutil.which, (named,) if named else CHROMIUMS)), None)
    assert path, "there is no Chromium on this machine; `make setup-browser` installs one"
    # Chromium refuses its own sandbox to root.
    return kind.launch(executable_path=path, args=["--no-sandbox"] if os.geteuid() == 0 else [])


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright, closing(launched(playwright.chromium)) as chromium:
        yield chromium


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """What the demo shows, with a few tools more."""
    tools = tmp_path_factory.mktemp("tools")
    for file in (*demo.TOOLS.glob("*.py"), *TOOLS.glob("*.py")):
        shutil.copy(file, tools)
    made = Home(tmp_path_factory.mktemp("hub"), {"TOOLHUB_TOOLS_DIR": str(tools)})
    with N8n() as n8n, FakeRedmine() as redmine:
        demo.fill(made.environment, n8n.url, redmine.url, PASSWORD)
        done = made.run("shell", "-c", COLLEAGUES)
        assert done.returncode == 0, done.stderr
        yield made


@pytest.fixture(scope="session")
def server(home: Home) -> Iterator[Server]:
    with home.serving(TOOLHUB_LOGIN_FAILURES="3", TOOLHUB_ANONYMOUS_RATE_CALLS="0") as running:
        yield running


@pytest.fixture(scope="session")
def key(home: Home) -> str:
    """Of an agent that may do everything."""
    return key_in(home.run("addkey", "tester", "--scope", "admin:*").stdout)


@pytest.fixture(scope="session")
def rest(server: Server, key: str) -> Iterator[httpx.Client]:
    """What that agent calls with."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"{server.url}/v1", headers=headers, timeout=30) as client:
        yield client


@pytest.fixture(scope="session")
def signed_in(browser: Browser, server: Server) -> Callable[[str], StorageState]:
    """What the browser of a user keeps once somebody has signed in, which is done once for each."""

    @cache
    def state(user: str) -> StorageState:
        with desks.desk(browser, server.url, user=user, password=PASSWORD) as one:
            return one.context.storage_state()

    return state


@pytest.fixture
def sit_down(browser: Browser, server: Server, signed_in: Callable[[str], StorageState]) -> Iterator[SitDown]:
    """Opens the browser of a user; what went wrong in it fails the test at its end."""
    with ExitStack() as open_desks:
        sat: list[Desk] = []

        def at(user: str = "admin", **context: Any) -> Desk:
            made = desks.desk(browser, server.url, storage_state=signed_in(user), **context)
            sat.append(open_desks.enter_context(made))
            return sat[-1]

        yield at
        for one in sat:
            one.calm()


@pytest.fixture
def chief(sit_down: SitDown) -> Desk:
    """The browser of the administrator."""
    return sit_down()


@pytest.fixture
def page(chief: Desk) -> Page:
    """What the administrator looks at."""
    return chief.page
