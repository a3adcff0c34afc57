"""What bad sources cost the good ones, and what many sources cost a hub: real servers, programs and hubs.

    python benchmarks/bad_sources.py bad [--rounds 5] [--calls 600]
    python benchmarks/bad_sources.py many [--sources 100] [--starts 5]
    python benchmarks/bad_sources.py shared
    python benchmarks/bad_sources.py growth [--calls 2000]

bad: rounds in which all of 20 sources over HTTP are good alternate with rounds in which one is dead, one hangs, one
answers after 15 s, and one sends garbage and bodies of 100 MiB; a caller in the background uses each of these four.
many: from the start of `serve` and `runmcp` to the first list, beside the same hub without sources; the bytes of the
list; then one call of each source, with cold children. shared: three processes of a hub with one program, and the end
of their supervisor. growth: open files, threads and memory over many calls. Compare within one run only.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from tests.support import crowd  # noqa: E402
from tests.support.agents import Agent  # noqa: E402
from tests.support.crowd import TOOLSET  # noqa: E402
from tests.support.http_agents import HttpAgent  # noqa: E402
from tests.support.hubs import Client  # noqa: E402
from tests.support.processes import Home, Server, free_port, key_in  # noqa: E402
from tests.support.stores import SQLiteStore  # noqa: E402

HTTP_SOURCES: Final = 20
BAD: Final = ("dead", "hanging", "late", "garbage")
# A program for the hub's processes alone: notes each time that its event loop was held for more than 20 ms.
WATCH = """
import asyncio, os, time
run_forever = asyncio.base_events.BaseEventLoop.run_forever

def watched(loop):
    last = [time.monotonic()]
    def tick():
        now = time.monotonic()
        if (late := now - last[0] - 0.005) > 0.02:
            with open(os.environ["STALLS"], "a") as file:
                file.write(f"{late}\\n")
        last[0] = now
        loop.call_later(0.005, tick)
    loop.call_later(0.005, tick)
    run_forever(loop)

asyncio.base_events.BaseEventLoop.run_forever = watched
"""


def home_at(folder: Path) -> Home:
    home = Home(folder, {"TOOLHUB_RATE_CALLS": "0", "TOOLHUB_KEY_RATE_CALLS": "0", "LOG_LEVEL": "error"})
    assert home.run("synctools").returncode == 0
    return home


def key_of(home: Home) -> str:
    return key_in(home.run("addkey", "benchmark", *TOOLSET).stdout)


def median(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")


def part(values: list[float], of_hundred: int) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * of_hundred // 100)]


@contextlib.contextmanager
def serving(home: Home, **extra: str) -> Iterator[tuple[Server, float]]:
    """A server, and when it was started."""
    port = free_port()
    begun = time.monotonic()
    server = Server(home.start("serve", "--port", str(port), **extra), port)
    try:
        server.wait()
        yield server, begun
    finally:
        server.end()


def first_list(server: Server, key: str, begun: float) -> tuple[float, bytes]:
    with HttpAgent(server.url, key) as agent:
        agent.connect()
        answer = agent.send(agent.message("tools/list", {}))
        assert answer.status_code == 200, answer.text
        return time.monotonic() - begun, answer.content


# ---- bad


def bad(folder: Path, options: argparse.Namespace) -> None:
    home = home_at(folder / "home")
    (folder / "sitecustomize.py").write_text(WATCH)
    watched = {"PYTHONPATH": os.pathsep.join([str(folder), str(CHECKOUT)])}
    figures: dict[str, list[tuple[float, float, float, float, float]]] = {"good": [], "bad": []}
    with crowd.servers(folder, HTTP_SOURCES) as servers:
        crowd.add(home, servers.urls())
        key = key_of(home)
        for number in range(options.rounds):
            for kind in ("good", "bad"):
                # The fourth of them sends too much instead of garbage in every other round.
                modes = (*BAD[:3], ("garbage", "huge")[number % 2]) if kind == "bad" else ("good",) * 4
                servers.become(dict(enumerate(modes)))
                stalls = folder / f"stalls {kind} {number}"
                stalls.touch()
                figures[kind].append(one_round(home, key, options.calls, stalls, watched))
    print(f"{options.rounds} rounds, {options.calls} calls each, of {HTTP_SOURCES - 4} good sources; medians")
    print(f"{'':8}{'start':>9}{'list':>9}{'p50':>9}{'p95':>9}{'longest stall':>15}  ms")
    rows = {kind: [median(list(values)) for values in zip(*found, strict=True)] for kind, found in figures.items()}
    for kind, row in rows.items():
        longest = max(found[4] for found in figures[kind])
        print(f"{kind:8}" + "".join(f"{value * 1000:9.1f}" for value in row[:4]) + f"{longest * 1000:15.0f}")
    ratios = [median([b[n] / a[n] for a, b in zip(*figures.values(), strict=True)]) for n in range(4)]
    print(f"{'ratio':8}" + "".join(f"{ratio:8.2f}×" for ratio in ratios))


def one_round(
    home: Home, key: str, calls: int, stalls: Path, watched: dict[str, str]
) -> tuple[float, float, float, float, float]:
    ends = threading.Event()
    with serving(home, STALLS=str(stalls), **watched) as (server, begun):
        started = time.monotonic() - begun
        listed, _ = first_list(server, key, begun)

        def call_bad(source: int) -> None:
            while not ends.wait(0.2):
                client = Client(server.port, key)
                client.call(f"http{source}_echo", 1, text="x")
                client.close()

        callers = [threading.Thread(target=call_bad, args=(source,), daemon=True) for source in range(4)]
        client = Client(server.port, key)
        good = [f"http{source}_echo" for source in range(4, HTTP_SOURCES)]
        for tool in good:
            assert not client.call(tool, 1, text="x").code
        stalls.write_text("")  # Those of the start are nothing that a source did.
        for caller in callers:
            caller.start()
        seconds = []
        for number in range(calls):
            answer = client.call(good[number % len(good)], number, text="x")
            assert not answer.code, answer
            seconds.append(answer.seconds)
        client.close()
        ends.set()
        server.process.kill()  # Not a clean end, which waits for the calls in the background.
        server.process.wait()
        longest = max(map(float, stalls.read_text().split()), default=0.0)
    return started, listed, median(seconds), part(seconds, 95), longest


# ---- many


def many(folder: Path, options: argparse.Namespace) -> None:
    programs = crowd.Programs.of(folder, start_seconds=0.2)
    none, home = home_at(folder / "none"), folder / "many"
    shutil.copytree(none.path, home)
    with_many = Home(home, none.extra)
    begun = time.monotonic()
    crowd.add(with_many, programs.commands(options.sources))
    crowd.add(none, {})
    print(f"{options.sources} sources added, listed, approved: {time.monotonic() - begun:.1f} s")
    homes = {"none": none, "many": with_many}
    keys = {name: key_of(one) for name, one in homes.items()}
    crowd.ended(with_many)
    samples: dict[tuple[str, str], list[float]] = {}
    lists: dict[str, set[bytes]] = {"serve": set(), "runmcp": set()}
    programs.log.write_text("")
    for _ in range(options.starts):
        for name, one in homes.items():
            with serving(one) as (server, at):
                seconds, answer = first_list(server, keys[name], at)
                samples.setdefault(("serve", name), []).append(seconds)
            if name == "many":
                lists["serve"].add(answer)
            with Agent(one, arguments=TOOLSET if name == "many" else ()) as agent:
                agent.connect()
                agent.result(agent.ask("tools/list"))
                samples.setdefault(("runmcp", name), []).append(time.monotonic() - agent.begun)
                if name == "many":
                    lists["runmcp"].add(agent.raw[-1])
    print(f"children that the lists started: {len(programs.noted('begun'))}")
    for door in ("serve", "runmcp"):
        few, more = samples[door, "none"], samples[door, "many"]
        ratio = median([b / a for a, b in zip(few, more, strict=True)])
        (text,) = lists[door]
        print(
            f"{door:8} start to list: {median(few) * 1000:.0f} ms without, {median(more) * 1000:.0f} ms with sources: "
            f"{ratio:.2f}×; {text.count(b'inputSchema')} tools, {len(text):,} bytes, the same {options.starts} times"
        )
    call_all(with_many, keys["many"], programs, options.sources, lists["serve"])


def call_all(home: Home, key: str, programs: crowd.Programs, number: int, before: set[bytes]) -> None:
    with serving(home) as (server, at):
        begun = time.monotonic()

        def call(source: int) -> str:
            client = Client(server.port, key, 120)
            answer = client.call(f"child{source}_count", 1)
            client.close()
            return answer.code or "done"

        with ThreadPoolExecutor(number) as pool:
            codes = Counter(pool.map(call, range(number)))
        print(f"all {number} called at once, cold: {dict(codes)} in {time.monotonic() - begun:.1f} s")
        first = [call(source) for source in range(number)]
        print(f"and again, one by one: {dict(Counter(first))}")
        print(f"started {len(programs.noted('begun'))}, at most {programs.most_at_once()} at once")
        pids = crowd.supervisor_processes(home)
        print(f"memory: hub {rss(server.process.pid):.0f} MiB, {memory_of(pids)}")
        _, after = first_list(server, key, at)
        print(f"the list afterwards is the same: {after in before}")


# ---- shared


def shared(folder: Path, options: argparse.Namespace) -> None:
    programs = crowd.Programs.of(folder)
    home = home_at(folder / "home")
    crowd.add(home, programs.commands(1))
    key = key_of(home)
    crowd.ended(home)
    programs.log.write_text("")
    with (
        serving(home) as (server, _),
        Agent(home, arguments=TOOLSET) as one,
        Agent(home, arguments=TOOLSET) as other,
        contextlib.ExitStack() as stack,
    ):
        for agent in (one, other):
            agent.connect()
        client = Client(server.port, key)
        calls: list[Callable[[], object]] = [
            lambda: client.call("child0_count", 1).body,
            lambda: one.call("child0_count"),
            lambda: other.call("child0_count"),
        ]
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda call: [call() for _ in range(5)], calls))
        print(f"three processes, 15 calls: {len(programs.noted('begun'))} child")

        def write() -> str:
            own = Client(server.port, key)
            code = own.call("child0_work", 1, seconds=30).code
            own.close()
            return code

        pool = stack.enter_context(ThreadPoolExecutor(1))
        for number in range(options.kills):
            writing = pool.submit(write)
            while len(programs.noted("working")) <= number:
                time.sleep(0.01)
            pid = crowd.supervisor_of(home)
            os.kill(pid, signal.SIGKILL)
            killed = time.monotonic()
            # A call that is on its way just then is lost like the write.
            while Path(f"/proc/{pid}").exists():
                time.sleep(0.002)
            answer = client.call("child0_count", 1)
            seconds = time.monotonic() - killed
            told = writing.result(60)
            ((status, error),) = SQLiteStore(home.database).query(
                "SELECT status, code FROM tools_app_call WHERE tool_name = 'child0_work' ORDER BY id DESC LIMIT 1"
            )
            print(
                f"supervisor killed: next call {answer.code or 'done'} after {seconds * 1000:.0f} ms; "
                f"the open write: {told}, in the journal {status} {error}"
            )
        client.close()


# ---- growth


def growth(folder: Path, options: argparse.Namespace) -> None:
    programs = crowd.Programs.of(folder)
    home = home_at(folder / "home")
    with crowd.servers(folder, 5) as servers:
        crowd.add(home, {**servers.urls(), **programs.commands(5)})
        key = key_of(home)
        with serving(home) as (server, _):
            tools = [f"{kind}{number}_echo" for number in range(5) for kind in ("http", "child")]
            clients = [Client(server.port, key) for _ in range(4)]
            pid = server.process.pid

            def some(client: Client) -> int:
                return sum(not client.call(tools[n % 10], n, text="x").code for n in range(options.calls // 20))

            print(f"{'calls':>8}{'files':>8}{'threads':>9}{'hub MiB':>9}   supervisor")
            done = 0
            for step in range(6):
                if step:
                    with ThreadPoolExecutor(4) as pool:
                        done += sum(pool.map(some, clients))
                files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
                threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
                print(
                    f"{done:8}{files:8}{threads:9}{rss(pid):9.1f}   {memory_of(crowd.supervisor_processes(home))}, "
                    f"files {sum(files_of(pid) for pid in crowd.supervisor_processes(home))}",
                    flush=True,
                )
            for client in clients:
                client.close()


# ---- processes


def rss(pid: int) -> float:
    """MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def pss(pid: int) -> float:
    """MiB, shared pages by their share."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def files_of(pid: int) -> int:
    with contextlib.suppress(OSError):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return 0


def memory_of(pids: list[int]) -> str:
    resident, own = [], 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            own += pss(pid)
            resident.append(rss(pid))
    return f"{len(resident)} processes of the supervisor: largest {max(resident, default=0):.0f} MiB, in all {own:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = {"bad": bad, "many": many, "shared": shared, "growth": growth}
    parser.add_argument("part", choices=parts)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=0)
    parser.add_argument("--sources", type=int, default=100)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--kills", type=int, default=3)
    options = parser.parse_args()
    options.calls = options.calls or (600 if options.part == "bad" else 2000)
    with tempfile.TemporaryDirectory() as name:
        parts[options.part](Path(name), options)


if __name__ == "__main__":
    main()
