"""What the kernel keeps from a child: the files, memory and processes of its hub."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.upstream.children.support import PYTHON, Den, opened, origin
from tools_app.sdk.outside import Origin
from tools_app.upstream import children
from tools_app.upstream.children import sandbox
from tools_app.upstream.children.supervisor import landlock

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("streams_closed")]

HOSTILE: Final = str(Path(__file__).with_name("hostile.py"))
needs_landlock = pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")


@pytest.fixture
def canary() -> str:
    return f"canary-{secrets.token_hex(8)}"


@pytest.fixture
def files(den: Den, canary: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files of the hub with a canary in each: in its home, and those that settings name elsewhere."""
    settings.TOOLHUB_SECRETS_DIR, settings.TOOLHUB_TOOLS_DIR = tmp_path / "secrets", tmp_path / "site" / "tools"
    settings.ENV_FILE = tmp_path / "site" / ".env"
    database = tmp_path / "data" / "hub.sqlite3"
    own = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(database)}
    monkeypatch.setitem(settings.DATABASES, "isolated", own)
    monkeypatch.setenv("SECRET_KEY_FILE", str(tmp_path / "run" / "key"))
    files = [
        *(den.home / name for name in ("encryption_key", "toolhub.sqlite3", "logs/hub.log")),
        *(tmp_path / "secrets" / "acme", tmp_path / "site" / "tools" / "mine.py", tmp_path / "site" / ".env"),
        *(database, Path(f"{database}-wal"), tmp_path / "run" / "key"),
    ]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(canary)
    return files


@pytest.fixture
def process(canary: str) -> Iterator[int]:
    """A process of the hub: with secrets among its variables and in its memory."""
    program = "import os, sys; held = os.environ['SECRET_KEY'] * 2; print('here', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [*PYTHON, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"SECRET_KEY": canary},
    ) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        assert started.stdout.readline() == b"here\n"
        yield started.pid
        started.stdin.close()


def contents(den: Den, files: list[str]) -> dict[str, object]:
    """What is in these files, and which others are beside them."""
    names = {path.parent: {one.name for one in path.parent.iterdir()} - {"work"} for path in map(Path, files)}
    return {**{path: Path(path).read_bytes() for path in files}, **{str(path): names[path] for path in names}}


def hostile(**told: Any) -> Origin:
    return origin(
        command=(
            *PYTHON,
            HOSTILE,
            json.dumps({"traces": children.isolation() != "none", **told}),
        )
    )


async def attempts(source: Origin) -> list[str]:
    found: list[str] = json.loads(await (await opened(source)).call("tried"))
    return found


@needs_landlock
async def test_a_hostile_server_reads_and_changes_nothing_of_the_hub(
    den: Den, files: list[Path], process: int, canary: str
) -> None:
    assert children.isolation() == "landlock"
    own = [str(file) for file in (*files, den.directory / "secret", den.directory / "marker")]
    before = contents(den, own)
    supervisor = den.supervisors()
    source = hostile(canary=canary, files=own, processes=[process, *supervisor], runtime=str(den.directory))
    assert await attempts(source) == []
    assert contents(den, own) == before


@needs_landlock
async def test_two_servers_do_not_read_each_other(den: Den, canary: str) -> None:
    other = await opened(origin(name="other"), TOKEN=canary)
    pid = (await other.state())["pid"]
    source = hostile(canary=canary, files=[], processes=[pid], runtime=str(den.directory))
    found = [attempt for attempt in await attempts(source) if not attempt.startswith("order")]
    assert found == []


@needs_landlock
async def test_the_same_server_reads_everything_where_isolation_is_off(
    den: Den, files: list[Path], process: int, canary: str, settings: Any
) -> None:
    settings.TOOLHUB_ISOLATE_PROGRAMS = False
    assert children.isolation() == "none"
    own = [str(file) for file in files]
    found = await attempts(hostile(canary=canary, files=own, processes=[process], runtime=str(den.directory)))
    assert {f"read {path}: True" for path in own} <= {*found}
    assert f"/proc/{process}/environ: True" in found


async def test_devices_are_not_hidden(den: Den, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ENV_FILE = Path(os.devnull)
    monkeypatch.setenv("SECRET_KEY_FILE", os.devnull)
    assert os.devnull not in sandbox.hidden_paths(den.directory)


@needs_landlock
async def test_a_server_works_as_usual_beside_that(den: Den, files: list[Path], canary: str) -> None:
    client = await opened(hostile(canary=canary, files=[], processes=[], runtime=""))
    assert json.loads(await client.call("useful")) == ["state.json"]


@needs_landlock
def test_package_managers_find_their_directories_in_a_home_that_holds_the_hub(tmp_path: Path) -> None:
    hub = tmp_path / ".local" / "share" / "toolhub"
    work = hub / "work"
    work.mkdir(parents=True)
    (tmp_path / "documents").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    program = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from supervisor import landlock\n"
        "print(landlock.restrict([sys.argv[2]], sys.argv[3], {'HOME': sys.argv[4]}).get('TMPDIR', ''))\n"
        "for name in ('.npm/x', '.cache/x', '.config/x', '.local/bin/x', '.local/share/uv/x', 'documents/x'):\n"
        "    open(os.path.join(sys.argv[4], name), 'w').close()\n"
        "for name in ('x', '.local/share/x', '.local/share/toolhub/x', 'link/.local/share/toolhub/x'):\n"
        "    try: open(os.path.join(sys.argv[4], name), 'w').close()\n"
        "    except PermissionError: continue\n"
        "    print(name)\n"
    )
    package = str(Path(landlock.__file__).parent.parent)
    command = [*PYTHON, "-c", program, package, str(hub), str(work), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = str(work) if tmp_path.is_relative_to("/tmp") else ""  # noqa: S108
    assert done.stdout.split() == [expected] if expected else done.stdout.split() == []
    assert sys.platform == "linux"


def test_nothing_is_hidden_where_the_kernel_cannot(den: Den, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "_LEAST", 1_000)
    assert children.isolation() == "none"
    assert sandbox.hidden_paths(den.directory) == []
