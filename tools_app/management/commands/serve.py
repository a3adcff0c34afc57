"""Start the hub: one command from an empty directory to a running server."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import signal
import socket
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, Final

from django.conf import settings
from django.core.management.base import CommandParser

from tools_app import engine, governance
from tools_app.base import conf, hub, shared
from tools_app.catalog import catalog
from tools_app.governance import probes
from tools_app.management import systemd
from tools_app.management.hub_command import REFUSED, Abort, HubCommand
from tools_app.management.private_state import keep_private
from tools_app.sdk.errors import ToolError
from tools_app.setup import checks, installation
from tools_app.setup.installation import Welcome
from tools_app.sources import sync

DRAIN_SECONDS: Final = 10


class Command(HubCommand):
    help = "Start the hub with admin, REST and MCP; the first start also sets it up."
    needs_ready = False

    def add_arguments(self, parser: CommandParser) -> None:
        if not hasattr(settings, "LOG_LEVELS"):
            # This command starts ToolHub's own site, and needs its settings.
            sys.exit("serve: starts ToolHub's own site, not this project; use your own, see docs/embedding.md")
        parser.add_argument("--host", default=settings.HOST, help="address to listen on (HOST)")
        parser.add_argument("--port", type=int, default=settings.PORT, help="port to listen on (PORT)")
        parser.add_argument("--workers", type=int, default=1, help="number of server processes")
        parser.add_argument("--log-level", default=settings.LOG_LEVEL, choices=settings.LOG_LEVELS)

    def handle(self, *args: Any, host: str, port: int, workers: int, log_level: str, **options: Any) -> None:
        if not 1 <= port <= 65535 or not 1 <= workers <= 64:
            raise Abort("--port must be 1 to 65535, --workers 1 to 64", REFUSED)
        if log_level != settings.LOG_LEVEL:
            # Worker processes read the level from the environment.
            os.environ["LOG_LEVEL"] = log_level
            settings.LOG_LEVEL = settings.LOGGING["level"] = log_level
            from tools_app.base import logs

            logs.configure(settings.LOGGING)
        if workers > 1:
            # A session lives in one process, but its requests can reach any.
            os.environ["TOOLHUB_MCP_SESSIONS"] = "0"
        passed = systemd.passed_socket()
        if passed is not None:
            host = passed.getsockname()[0]
        refuse_exposure(host)
        keep_private()
        allow_all_files()
        listener = listen(host, port) if passed is None else passed
        report = installation.set_up(self.tell)
        if report is not None and (report.added or report.changed or report.returned or report.retired):
            self.tell(f"Tools: {report}")
        try:
            first = installation.welcome(settings.TOOLHUB_ADMIN_PASSWORD, actor=governance.of_command())
        except ToolError as error:
            raise Abort(f"TOOLHUB_ADMIN_PASSWORD: {error.message}", REFUSED) from error
        self._summary(host, listener.getsockname()[1], workers, first)
        systemd.notify("READY=1")
        self._serve(listener, workers)

    def _summary(self, host: str, port: int, workers: int, first: Welcome) -> None:
        address = f"http://{'localhost' if _is_loopback(host) else host}:{port}"
        out, bold = self.stdout, self.style.MIGRATE_HEADING
        out.write(f"\n{bold('ToolHub')} {conf.value('TOOLHUB_VERSION')} is ready\n")
        out.write(f"  Admin   {address}/admin/")
        out.write(f"  REST    {address}/v1/tools")
        out.write(f"  MCP     {address}/mcp")
        out.write(f"  Agents  {_own_command()} connect claude-code   (other clients: see --help)")
        out.write(f"  State   {conf.home()}\n")
        for line in tool_lines():
            out.write(f"  {line}")
        redis = shared.of_hub()
        if redis.url:
            trouble = redis.check()
            words = f"cannot be used, so they count in each process: {trouble}" if trouble else "counts them for all"
            out.write(f"  Limits  Redis at {redis.place} {words}")
        elif workers > 1:
            limits = engine.limits_in_words(workers)
            out.write(f"  Limits  count in each of the {workers} workers; in total: {limits}")
        if settings.SECURE_SSL_REDIRECT and not conf.value("TOOLHUB_TRUSTED_PROXIES"):
            out.write("  HTTPS   causes a redirect loop until TOOLHUB_TRUSTED_PROXIES lists the HTTPS proxy")
        if first.password or first.key:
            self._show_once(first)
        out.write("\n  Press Ctrl-C to stop.\n")
        out.flush()

    def _show_once(self, first: Welcome) -> None:
        """Show the credentials on a terminal. Other output may end up in a log: then write them to a private file."""
        lines = []
        if first.password:
            lines.append(f"Admin login   admin / {first.password}")
        if first.key:
            lines.append(f"API key       {first.key}")
        home = conf.home()
        if self.stdout.isatty() or home is None:
            self.stdout.write(f"\n  {self.style.WARNING('Shown only once:')}")
            for line in lines:
                self.stdout.write(f"  {line}")
        else:
            path = home / "first-login.txt"
            _write_private(path, "\n".join(lines) + "\n")
            self.stdout.write(f"\n  Login and first API key: {path} (delete it after reading)")

    def _serve(self, listener: socket.socket, workers: int) -> None:
        import uvicorn
        from uvicorn.supervisors import Multiprocess

        from tools_app.management.http_protocol import SERVING

        module, _, attribute = settings.ASGI_APPLICATION.rpartition(".")
        config = uvicorn.Config(
            f"{module}:{attribute}",
            workers=workers,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            **SERVING,
        )
        server = _server(config)
        # uvicorn drains, then raises the signal again for the previous handler, which is ours.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _end)
        if catalog.current().connection_kinds:
            hub.current().thread(probes.probe_all, "toolhub-probes").start()
        if workers > 1:
            Multiprocess(config, sockets=[listener]).run()
        else:
            server.run(sockets=[listener])
        if not server.started and workers == 1:
            raise Abort("the server could not start; see the log above", 1)


def allow_all_files() -> None:
    """Raise the soft limit of open files to the hard limit: every stream of an agent is an open file.

    The soft limit is often 1,024, which idle streams alone can exhaust.
    """
    try:
        import resource
    except ImportError:  # Not available on Windows.
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # Some systems report a limit above the real one.
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def refuse_exposure(host: str) -> None:
    """Allow other addresses than loopback only with a strong secret key and without DEBUG.

    Raises:
        Abort
    """
    if _is_loopback(host):
        return
    if settings.DEBUG:
        raise Abort(f"DEBUG exposes secrets: unset it, or listen on 127.0.0.1 instead of {host}", REFUSED)
    if weak := checks.secret_key_is_strong(None):
        raise Abort(f"{weak[0].msg} {weak[0].hint} Or listen on 127.0.0.1 instead of {host}.", REFUSED)


def listen(host: str, port: int) -> socket.socket:
    """Bind the port before the setup starts.

    Raises:
        Abort: the port cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is explicit; without it, Nagle's algorithm and delayed
    # acknowledgements cost 40 ms a request.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == 98 or "in use" in str(error):
            advice = f"stop the process that uses it, or choose another port: PORT={port + 1}"
            raise Abort(f"port {port} on {host} is in use; {advice}", REFUSED) from error
        raise Abort(f"cannot listen on {host}:{port} ({error.strerror}); check HOST and PORT", REFUSED) from error
    listener.set_inheritable(True)
    return listener


def tool_lines() -> list[str]:
    """Tools per pack, and why some cannot be called."""
    snapshot = catalog.current()
    total: Counter[str] = Counter(entry.pack for entry in snapshot.all)
    ready: Counter[str] = Counter(entry.pack for entry in snapshot.callable)
    lines = []
    for pack in sorted(total):
        reasons = sorted({entry.refusal.reason for entry in snapshot.all if entry.pack == pack and entry.refusal})
        reason_note = f"  ({'; '.join(reasons)})" if reasons else ""
        lines.append(f"Pack    {pack}: {ready[pack]} of {total[pack]} tools can be called{reason_note}")
    lines.extend(f"Broken  {problem}" for problem in sync.problems())
    return lines or ["Pack    no tools yet"]


def _own_command() -> str:
    script = Path(sys.argv[0])
    if script.name == "toolhub" and script.is_file():
        return str(script.resolve())
    beside = Path(sys.executable).with_name("toolhub")
    return str(beside) if beside.exists() else f"{sys.executable} -m toolhub"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _server(config: Any) -> Any:
    """uvicorn's server that exits at once on a second Ctrl-C; from Python 3.12 on it would wait for connections."""
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            if self.should_exit and sig == signal.SIGINT:
                os._exit(130)
            super().handle_exit(sig, frame)

    return Server(config)


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
