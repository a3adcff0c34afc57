"""From the start of a child to its end, and what is left then: nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.upstream.children.support import (
    PYTHON,
    SECONDS,
    SERVER,
    Den,
    happens,
    is_alive,
    opened,
    origin,
    parent,
    pids,
    stat,
)
from tools_app.base import hub
from tools_app.sdk import child_environment
from tools_app.upstream import children
from tools_app.upstream.children import runtime
from tools_app.upstream.children.client import ChildStatus

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("streams_closed")]


async def status_of(name: str = "double") -> ChildStatus:
    status = await children.status(name)
    assert status is not None
    return status


# ---- start


async def test_nothing_is_started_by_those_who_only_look(bare_den: Den) -> None:
    assert await children.status("double") is None
    await children.stop("double")
    await children.stop_all()
    assert bare_den.processes() == []
    assert not (bare_den.directory / "socket").exists()


async def test_a_start_continues_without_its_caller(den: Den, tmp_path: Path) -> None:
    started = tmp_path / "started"
    source = origin("slow:2.5", f"pid:{started}")
    for _ in range(3):
        with pytest.raises(children.NotUpYet, match="it is still starting after 0.1 s"):
            await opened(source, 0.1)
    assert (await status_of()).state == "starting"
    client = await opened(source)
    assert await client.call("count") == "1"
    assert len(pids(started)) == 1


async def test_a_private_child_that_started_too_late_is_the_next_streams(den: Den, tmp_path: Path) -> None:
    started = tmp_path / "started"
    source = origin("slow:1", f"pid:{started}", per_session=True)
    with pytest.raises(children.NotUpYet):
        await opened(source, 0.1)
    client = await opened(source)
    assert (await client.state())["pid"] == pids(started)[0]
    assert len(pids(started)) == 1


async def test_only_some_start_at_once(bare_den: Den) -> None:
    bare_den.start(starts=2)
    sources = [origin("slow:0.4", name=f"s{number}") for number in range(5)]
    opening = asyncio.gather(*(opened(source) for source in sources))
    begun = time.monotonic()
    seen = set()
    while not opening.done():
        seen |= {status.state for source in sources if (status := await children.status(source.name))}
        await asyncio.sleep(0.02)
    assert {"waiting", "starting"} <= seen
    assert time.monotonic() - begun >= 1.2, "three turns"
    assert [await client.call("count") for client in await opening] == ["1"] * 5


async def test_a_server_that_ignores_the_newer_protocol_is_begun_with_the_earlier(bare_den: Den) -> None:
    bare_den.start(discover=0.2)
    client = await opened(origin("mute-discover"))
    assert (await client.request("server/discover"))["error"]["code"] == -32601
    assert (await client.request("initialize"))["result"]["protocolVersion"] == "2025-11-25"


async def test_a_server_that_dies_of_the_newer_protocol_is_not_asked_again(den: Den, tmp_path: Path) -> None:
    started = tmp_path / "started"
    client = await opened(origin("dies-of-discover", f"pid:{started}"))
    assert await client.call("count") == "1"
    assert len(pids(started)) == 2


async def test_a_modern_server_can_be_begun_as_an_earlier_one_too(den: Den) -> None:
    first, second = await opened(origin("modern")), await opened(origin("modern"))
    answers = await asyncio.gather(first.request("initialize"), second.request("initialize"))
    assert [answer["result"]["protocolVersion"] for answer in answers] == ["2025-11-25"] * 2
    state = await first.state()
    assert (state["introduced"], state["initialized"]) == (1, 1)


async def test_a_server_that_never_answers_is_ended(bare_den: Den, tmp_path: Path) -> None:
    bare_den.start(start=2, discover=0.1)
    started = tmp_path / "started"
    with pytest.raises(children.CannotStart, match=r"it did not answer within 2 s"):
        await opened(origin("mute", f"pid:{started}"))
    await happens(lambda: not is_alive(pids(started)[0]))


@pytest.mark.parametrize(
    ("modes", "reason"),
    [
        (["refuses"], "it did not begin a session: not you"),
        (["exits:3"], r"it ended with exit code 3: cannot read settings, password=\*\*\*"),
    ],
)
async def test_the_reason_of_a_failed_start_is_told_without_secrets(den: Den, modes: list[str], reason: str) -> None:
    with pytest.raises(children.CannotStart, match=f"^{reason}") as caught:
        await opened(origin(*modes))
    assert caught.value.next_try_at is not None
    status = await status_of()
    assert status.state == "down"
    assert status.next_try == caught.value.next_try_at
    assert "hunter22secret" not in str(status)


async def test_a_program_that_does_not_exist_is_named(den: Den) -> None:
    with pytest.raises(children.CannotStart, match="cannot run no-such-program: No such file or directory"):
        await opened(origin(command=("no-such-program", "x")))


async def test_failures_are_tried_again_at_growing_intervals(bare_den: Den, tmp_path: Path) -> None:
    bare_den.start(first_pause=0.5, patience=1.2)
    started = tmp_path / "started"
    source = origin("exits:1", f"pid:{started}")
    pauses = []
    for _ in range(3):
        with pytest.raises(children.CannotStart) as caught:
            await opened(source)
        assert caught.value.next_try_at is not None
        pauses.append((caught.value.next_try_at - (await status_of()).since).total_seconds())
    assert [round(pause, 1) for pause in pauses] == [0.5, 1.0, 2.0]
    # The next attempt is too far away to wait for: told at once, nothing is started.
    with pytest.raises(children.CannotStart):
        await opened(source)
    # The first time, it could have died of a question of the newer protocol, and was started once more without it.
    assert len(pids(started)) == 4
    await children.stop("double")  # an operator's wish: at once again
    with pytest.raises(children.CannotStart):
        await opened(source)
    assert len(pids(started)) == 5


async def test_children_of_one_stream_that_fail_are_delayed_too(bare_den: Den, tmp_path: Path) -> None:
    bare_den.start(first_pause=30)
    started = tmp_path / "started"
    source = origin("exits:1", f"pid:{started}", per_session=True)
    for _ in range(3):
        with pytest.raises(children.CannotStart, match="it ended with exit code 1") as caught:
            await opened(source)
        assert caught.value.next_try_at is not None
    assert len(pids(started)) == 2, "with and without the question of the newer protocol"


async def test_a_caller_that_gives_up_leaves_a_child_for_the_next(den: Den, tmp_path: Path) -> None:
    started = tmp_path / "started"
    source = origin("slow:1", f"pid:{started}", per_session=True)
    opening = asyncio.create_task(opened(source))
    await happens(lambda: pids(started))
    opening.cancel()
    await asyncio.wait({opening})
    client = await opened(source)
    assert (await client.state())["pid"] == pids(started)[0]
    assert len(pids(started)) == 1


@pytest.mark.parametrize("later", [{"epoch": 2}, {"reconnects": 1}])
async def test_a_changed_command_or_a_reconnection_ends_the_earlier_child(den: Den, later: Any) -> None:
    first = await opened(origin())
    pid = (await first.state())["pid"]
    second = await opened(origin("banner", **later))
    await first.ended()
    assert not is_alive(pid)
    assert await second.call("count") == "1"
    with pytest.raises(children.CannotStart, match="changed or reconnected meanwhile"):
        await opened(origin())


# ---- end


@pytest.mark.parametrize("code", [0, 3])
async def test_open_requests_are_told_that_the_child_has_ended(den: Den, code: int) -> None:
    client, other = await opened(origin()), await opened(origin())
    waiting = other.begin("slow", seconds=60)
    await other.writer.drain()
    answer = await client.answer(client.begin("die", code=code, words="out of memory, token=abcdefgh12345"))
    assert answer["error"] == {
        "code": -32000,
        "message": f"the server has ended: it ended with exit code {code}: out of memory, token=***",
    }
    assert (await other.answer(waiting))["error"]["code"] == -32000
    await client.ended()
    await other.ended()
    again = await opened(origin())
    assert await again.call("count") == "1"
    assert (await status_of()).restarts == 1


async def test_a_stop_by_an_operator(den: Den) -> None:
    client = await opened(origin())
    pid = (await client.state())["pid"]
    waiting = client.begin("slow", seconds=60)
    await client.writer.drain()
    await children.stop("double")
    assert not is_alive(pid)
    assert (await client.answer(waiting))["error"]["message"] == "the server has ended: stopped"
    await client.ended()
    status = await status_of()
    assert (status.state, status.reason, status.next_try, status.pid) == ("down", "stopped", None, None)
    assert await (await opened(origin())).call("count") == "1"


async def test_all_are_stopped_together(den: Den) -> None:
    found = [await opened(origin("ignores", name=f"s{number}")) for number in range(4)]
    states = [await client.state() for client in found]
    await children.stop_all()  # each takes four seconds, and the wait is shorter than that of all
    assert not any(is_alive(state["pid"]) for state in states)


async def test_an_idle_child_ends_and_comes_back(bare_den: Den) -> None:
    bare_den.start(idle=1.5)
    client = await opened(origin())
    pid = (await client.state())["pid"]
    # A call that is being executed is no idleness.
    assert await client.call("slow", seconds=2.5) == "slept"
    await client.ended()
    assert not is_alive(pid)
    assert (await status_of()).reason == "no request for 1.5 s"
    assert await (await opened(origin())).call("count") == "1"


async def test_one_that_always_runs_is_never_idle(bare_den: Den) -> None:
    bare_den.start(idle=0.2)
    client = await opened(origin(starts_always=True))
    usual = await opened(origin(name="usual"))
    await usual.ended()
    await asyncio.sleep(0.5)
    assert await client.call("count") == "1"


async def test_a_child_that_closes_its_output_is_ended(den: Den) -> None:
    client = await opened(origin())
    await client.call("close")
    await client.ended()
    assert "it closed its output" in (await status_of()).reason


async def test_nothing_outlives_the_hub(bare_den: Den) -> None:
    bare_den.start()
    client = await opened(origin("ignores"))
    assert len(bare_den.processes()) == 4
    client.close()
    await asyncio.to_thread(hub.current().close)
    await happens(lambda: not bare_den.processes(), 15)
    assert list((bare_den.directory / "work").iterdir()) == []
    assert not (bare_den.directory / "secret").exists()


# ---- what children start

WRAPPERS = {
    "none": [],
    "shell": ["sh", "-c", '"$@"; true', "sh"],
    "shells": ["sh", "-c", 'sh -c \'"$@"; true\' sh "$@"; true', "sh"],
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
async def test_a_stop_reaches_all_descendants(den: Den, wrapper: str) -> None:
    client = await opened(origin(command=(*WRAPPERS[wrapper], *PYTHON, SERVER, "ignores")))
    state = await client.state()
    grandchildren = [int(await client.call("grandchild")) for _ in range(3)]
    assert all(map(is_alive, grandchildren))
    await children.stop("double")
    assert not any(map(is_alive, [state["pid"], *grandchildren]))
    assert len(den.supervisors()) == 2, "the keeper has ended as well"


async def test_a_stop_is_not_delayed_by_orphans_that_end_all_the_time(den: Den) -> None:
    client = await opened(origin("ignores", "storm"))
    pid = (await client.state())["pid"]
    await children.stop("double")
    assert not is_alive(pid)
    assert (await status_of()).state == "down"


async def test_a_stop_during_a_start_is_no_failure(den: Den, tmp_path: Path) -> None:
    started = tmp_path / "started"
    opening = asyncio.create_task(opened(origin("slow:60", f"pid:{started}")))
    await happens(lambda: pids(started))
    await children.stop("double")
    with pytest.raises(children.CannotStart, match="stopped"):
        await opening
    assert not is_alive(pids(started)[0])
    assert len(pids(started)) == 1
    assert (await status_of()).next_try is None


async def test_lines_of_the_life_before_are_kept(den: Den) -> None:
    client = await opened(origin())
    client.begin("die", words="the reason")
    await client.ended()
    await opened(origin())
    assert (await status_of()).lines == ("the reason", "-- started again --")


async def test_the_death_of_a_wrapper_is_noticed(den: Den) -> None:
    client = await opened(origin(command=(*WRAPPERS["shell"], *PYTHON, SERVER, "ignores")))
    server = (await client.state())["pid"]
    grandchild = int(await client.call("grandchild"))
    wrapper = (await status_of()).pid
    assert wrapper not in (None, server)
    os.kill(wrapper or 0, signal.SIGKILL)
    await client.ended()
    assert not is_alive(server)
    assert not is_alive(grandchild)
    assert (await status_of()).reason.startswith("it ended with exit code 137")


async def test_a_keeper_that_is_killed_leaves_nothing(den: Den) -> None:
    client = await opened(origin("ignores"))
    server, grandchild = (await client.state())["pid"], int(await client.call("grandchild"))
    other = await opened(origin(name="other"))
    keeper = parent(server)
    os.kill(keeper, signal.SIGKILL)
    await client.ended()
    await happens(lambda: not is_alive(server) and not is_alive(grandchild))
    assert await other.call("count") == "1"


# ---- SIGKILL


def all_are_gone(processes: list[int]) -> bool:
    return not any(map(is_alive, processes))


def supervisor_of(den: Den) -> int:
    """The second process: the first is the guard."""
    return den.supervisors()[1]


async def test_kill_of_the_supervisor_leaves_nothing_and_the_next_call_starts_another(den: Den, tmp_path: Path) -> None:
    grandchildren = tmp_path / "grandchildren"
    servers = [origin("ignores", f"grandchild:{grandchildren}", name=f"s{number}") for number in range(3)]
    for _ in range(3):
        found = [await opened(source) for source in servers]
        states = [await client.state() for client in found]
        for client in found:
            client.begin("slow", seconds=60)
            await client.writer.drain()
        before = den.processes()
        os.kill(supervisor_of(den), signal.SIGKILL)
        for client in found:
            with pytest.raises((AssertionError, ConnectionError)):
                await client.call("never answered")
        # At once, and not only by the next supervisor: the guard does it.
        await happens(partial(all_are_gone, before), 5)
        assert not any(is_alive(state["pid"]) for state in states)
        assert await (await opened(servers[0])).call("count") == "1"
    assert len(pids(grandchildren)) == 10


async def test_kill_of_guard_and_supervisor_is_cleared_up_by_the_next(den: Den) -> None:
    client = await opened(origin("ignores"))
    server, grandchild = (await client.state())["pid"], int(await client.call("grandchild"))
    stranger = int(await (await opened(origin(name="other"))).call("grandchild"))
    guard, supervisor = den.supervisors()[:2]
    den.note()
    os.kill(guard, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    await happens(lambda: not is_alive(server))
    assert is_alive(grandchild), "without guard and supervisor, no process is left that knows of it"
    assert await (await opened(origin())).call("count") == "1"
    assert not is_alive(grandchild)
    assert not is_alive(stranger)


@pytest.mark.parametrize("marker", ["", "PATH", "\0" * 32, "x"])
async def test_a_damaged_marker_kills_nothing(bare_den: Den, marker: str) -> None:
    stranger = await asyncio.create_subprocess_exec("sleep", "60", env={"PATH": os.environ["PATH"], "X": "x"})
    bare_den.directory.mkdir(mode=0o700)
    (bare_den.directory / "marker").write_text(marker)
    try:
        assert await (await opened(origin())).call("count") == "1"
        assert is_alive(stranger.pid)
    finally:
        stranger.kill()
        await stranger.wait()


async def test_a_terminated_supervisor_ends_its_children(den: Den) -> None:
    client = await opened(origin())
    waiting = client.begin("slow", seconds=60)
    await client.writer.drain()
    os.kill(supervisor_of(den), signal.SIGTERM)
    assert (await client.answer(waiting))["error"]["message"] == "the server has ended: the hub has ended"
    await happens(lambda: not den.processes())


async def test_two_supervisors_of_one_directory_are_one(bare_den: Den) -> None:
    await asyncio.gather(*(asyncio.to_thread(bare_den.start) for _ in range(6)))
    await opened(origin())
    await happens(lambda: len(bare_den.supervisors()) == 3)


# ---- what a child gets


async def test_a_child_knows_nothing_of_the_hub(bare_den: Den, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    canary = "c4n4ry"
    for name in ("SECRET_KEY", "TOOLHUB_ENCRYPTION_KEY", "DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "N8N_API_KEY", "XYZ"):
        monkeypatch.setenv(name, f"{canary} {name}")
    monkeypatch.setenv("LC_PAPER", "de_DE")
    file = tmp_path / canary
    file.write_text(canary)
    descriptors = [os.open(file, os.O_RDONLY) for _ in range(3)]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, True)
    try:
        client = await opened(origin(), MY_TOKEN="given")
        stolen = json.loads(await client.call("steal"))
        state = await client.state()
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    assert canary not in json.dumps(stolen)
    assert stolen["environment"]["MY_TOKEN"] == "given"
    assert stolen["environment"]["LC_PAPER"] == "de_DE"
    own = {"MY_TOKEN", "TOOLHUB_CHILD", "LC_CTYPE", "TMPDIR"}
    assert set(stolen["environment"]) - own == set(child_environment.inherited(os.environ)) - own
    assert sorted(stolen["files"]) == ["0", "1", "2"]
    assert all(stolen["files"][number].startswith("pipe:") for number in "012")
    assert "given" not in " ".join(stolen["parents"]), "neither its parents' arguments nor variables have it"
    assert state["cwd"].startswith(str(bare_den.directory / "work"))


async def test_limits_of_a_child(den: Den) -> None:
    client = await opened(origin())
    pid = (await client.state())["pid"]
    limits = stat(pid, "limits")
    rows = {line[:26].strip(): line[26:].split()[:2] for line in limits.splitlines()}
    assert rows["Max core file size"] == ["0", "0"]
    assert int(rows["Max open files"][1]) <= 4096
    assert os.getsid(pid) == os.getpgid(pid) == pid
    ignored = next(line for line in stat(pid, "status").splitlines() if line.startswith("SigBlk"))
    assert int(ignored.split()[1], 16) == 0


async def test_a_secret_of_several_lines_is_masked_in_what_a_child_writes(den: Den) -> None:
    key = "-----BEGIN NO KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nshort==\n-----END NO KEY-----\n"
    client = await opened(origin(), MY_KEY=key, MY_TOKEN="s3cr3t-of-a-connection")
    # The last is cut in the middle of the secret.
    words = f"cannot read {key}nor {key!r}\n{'x' * 990}s3cr3t-of-a-connection"
    await client.answer(client.begin("die", words=words))
    while len((await status_of()).lines) < 4:  # noqa: ASYNC110 – the supervisor has them
        await asyncio.sleep(0.01)
    lines = "\n".join((await status_of()).lines)
    for secret in ("MIIEvQIBADANBgkqhkiG9w0B", "short==", "s3cr"):
        assert secret not in lines
    assert "cannot read" in lines


async def test_secrets_of_a_connection_are_in_no_file_and_no_argument(den: Den) -> None:
    secret = "s3cr3t-of-a-connection"
    client = await opened(origin(), MY_TOKEN=secret)
    answer = await client.answer(client.begin("die", words=f"cannot log in with {secret}"))
    assert secret not in json.dumps(answer)
    assert "***" in json.dumps(answer)
    await opened(origin(), MY_TOKEN=secret)
    assert secret not in str(await status_of())
    for file in den.home.rglob("*"):
        assert not file.is_file() or secret not in file.read_text()
    for pid in den.processes():
        assert secret not in stat(pid, "cmdline")
    for pid in den.supervisors():
        assert secret not in stat(pid, "environ")


@pytest.mark.parametrize("name", ["LD_PRELOAD", "NODE_OPTIONS", "PYTHONPATH", "BASH_ENV", "ld_preload", "PATH", "a b"])
async def test_variables_that_decide_what_runs_are_refused(bare_den: Den, name: str) -> None:
    with pytest.raises(children.CannotStart, match="cannot be set for a child process"):
        await opened(origin(), SECONDS, **{name: "x"})
    assert bare_den.processes() == []


def test_a_hub_with_a_long_home_uses_a_short_directory(bare_den: Den, settings: object, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    settings.TOOLHUB_HOME = long  # type: ignore[attr-defined]
    directory = runtime.directory()
    try:
        assert len(os.fsencode(directory / "socket")) < 100
        assert directory == runtime.directory()
        assert directory.stat().st_mode & 0o777 == 0o700
    finally:
        directory.rmdir()


def test_a_directory_that_others_prepared_is_refused(bare_den: Den, tmp_path: Path) -> None:
    bare_den.directory.symlink_to(tmp_path)
    with pytest.raises(OSError, match="belongs to another user"):
        runtime.directory()


async def test_a_supervisor_that_cannot_start_is_an_error_with_a_reason(bare_den: Den) -> None:
    bare_den.directory.write_text("in the way")
    with pytest.raises(children.CannotStart, match="the process that owns child processes cannot be started"):
        await opened(origin())
    bare_den.directory.unlink()


async def test_an_interpreter_that_fails_is_an_error_with_a_reason(
    bare_den: Den, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(children.CannotStart, match="the process that owns child processes cannot be started"):
        await opened(origin())
