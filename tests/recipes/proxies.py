"""Proxies from Debian in front of a real hub, with the files of docs/recipes.

The recipes are used as they are; only addresses, names of files and users are those of the test.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from tests.support.http_agents import HttpAgent
from tests.support.processes import CHECKOUT, Home, Server, free_port

RECIPES: Final = CHECKOUT / "docs" / "recipes"
NAME: Final = "hub.example.org"
URL: Final = f"https://{NAME}"
# Clients come from here, the proxies from 127.0.0.1.
CLIENT: Final = "127.0.0.2"
# What the hub is told about its proxy, as in docs/operate.md.
BEHIND: Final = {"ALLOWED_HOSTS": NAME, "TOOLHUB_HTTPS": "1", "TOOLHUB_TRUSTED_PROXIES": "127.0.0.1"}


@dataclass(frozen=True)
class Certificate:
    """Of the name of the hub, signed by itself."""

    certificate: Path
    key: Path

    @property
    def both(self) -> Path:
        path = self.certificate.with_name("both.pem")
        path.write_text(self.certificate.read_text() + self.key.read_text())
        return path


def certificate(directory: Path) -> Certificate:
    made = Certificate(directory / "hub.crt", directory / "hub.key")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "2", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"),
            *("-keyout", str(made.key), "-out", str(made.certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return made


def recipe(name: str, **changes: str) -> str:
    """A recipe with changes in it. What is replaced must be there: the test runs what is shipped."""
    text = (RECIPES / name).read_text()
    for before, after in changes.items():
        assert before in text, f"{name}: there is no {before!r}"
        text = text.replace(before, after)
    return text


class _ToProxy(httpx.HTTPTransport):
    """Connects with the proxy, whatever the URL says, as a name server would make it do."""

    def __init__(self, port: int, certificate: Certificate) -> None:
        context = ssl.create_default_context(cafile=str(certificate.certificate))
        super().__init__(verify=context, local_address=CLIENT)
        self._port = port

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        # Not the request itself: cookies belong to its URL.
        sent = httpx.Request(
            request.method,
            request.url.copy_with(host="127.0.0.1", port=self._port),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )
        return super().handle_request(sent)


@dataclass
class Proxy:
    name: str
    port: int
    plain_port: int | None
    process: subprocess.Popen[bytes]
    certificate: Certificate

    def client(self, **options: Any) -> httpx.Client:
        """A client on another address than the proxy. It verifies the certificate."""
        return httpx.Client(
            base_url=URL, transport=_ToProxy(self.port, self.certificate), timeout=60, trust_env=False, **options
        )

    def agent(self, key: str, era: str) -> HttpAgent:
        agent = HttpAgent(URL, None, era)
        agent.http.close()
        agent.http = self.client(headers={"Authorization": f"Bearer {key}"})
        return agent


@contextlib.contextmanager
def running(name: str, hub_port: int, certificate: Certificate, **changes: str) -> Iterator[Proxy]:
    """A proxy with its recipe, in which more is replaced by `changes`. Ended with the block."""
    port, plain_port = free_port(), free_port()
    # Not below the directory of pytest, which workers of nginx under another user could not enter.
    with tempfile.TemporaryDirectory(prefix="recipe-") as made:
        directory = Path(made)
        command = _PREPARED[name](directory, changes, hub_port, port, plain_port, certificate)
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=_bare(directory))
        try:
            _wait(process, port, directory / "log")
            yield Proxy(name, port, None if name == "caddy" else plain_port, process, certificate)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _bare(directory: Path) -> dict[str, str]:
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(directory), "XDG_DATA_HOME": str(directory)}


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(log.read_text())


def _nginx(
    directory: Path, more: dict[str, str], hub: int, port: int, plain: int, certificate: Certificate
) -> list[str]:
    changes = more | {
        "    listen 80;\n    listen [::]:80;\n": f"    listen 127.0.0.1:{plain};\n",
        "    listen 443 ssl http2;\n    listen [::]:443 ssl http2;\n": f"    listen 127.0.0.1:{port} ssl http2;\n",
        "/etc/ssl/toolhub/fullchain.pem": str(certificate.certificate),
        "/etc/ssl/toolhub/privkey.pem": str(certificate.key),
        "127.0.0.1:3000": f"127.0.0.1:{hub}",
    }
    (directory / "site.conf").write_text(recipe("nginx.conf", **changes))
    places = "".join(
        f"{name}_temp_path {directory}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = directory / "nginx.conf"
    # As Debian's nginx.conf includes it.
    main.write_text(
        f"daemon off; worker_processes 1; pid {directory}/pid; error_log stderr;\n"
        f"events {{ worker_connections 512; }}\n"
        f"http {{ access_log off; gzip on; {places} include /etc/nginx/mime.types; include {directory}/site.conf; }}\n"
    )
    directory.chmod(0o755)
    return ["nginx", "-c", str(main), "-p", str(directory), "-e", "stderr"]


def _haproxy(
    directory: Path, more: dict[str, str], hub: int, port: int, plain: int, certificate: Certificate
) -> list[str]:
    changes = more | {
        "    user haproxy\n    group haproxy\n": "",
        "log /dev/log local0": "log stdout format raw local0",
        "bind :80": f"bind 127.0.0.1:{plain}",
        "bind :443": f"bind 127.0.0.1:{port}",
        "/etc/haproxy/toolhub.pem": str(certificate.both),
        "127.0.0.1:3000": f"127.0.0.1:{hub}",
    }
    path = directory / "haproxy.cfg"
    path.write_text(recipe("haproxy.cfg", **changes))
    return ["haproxy", "-db", "-f", str(path)]


def _caddy(
    directory: Path, more: dict[str, str], hub: int, port: int, plain: int, certificate: Certificate
) -> list[str]:
    # No authority can be reached from here.
    tls = f"\ttls {certificate.certificate} {certificate.key}\n\tbind 127.0.0.1\n"
    changes = more | {
        f"{NAME} {{\n": f"{NAME}:{port} {{\n{tls}",
        "127.0.0.1:3000": f"127.0.0.1:{hub}",
    }
    path = directory / "Caddyfile"
    options = f"{{\n\tadmin off\n\tauto_https off\n\thttp_port {plain}\n\thttps_port {port}\n}}\n"
    path.write_text(options + recipe("Caddyfile", **changes))
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(path)]


_PREPARED: Final = {"nginx": _nginx, "haproxy": _haproxy, "caddy": _caddy}
PROXIES: Final = tuple(_PREPARED)


def missing(*programs: str) -> str:
    """Which of these programs are not on this machine, as the reason to skip; empty if all are."""
    path = "/usr/sbin:/usr/bin:/sbin:/bin"
    absent = [program for program in programs if shutil.which(program, path=path) is None]
    return f"not on this machine: {', '.join(absent)}; `make test-recipes` installs it on Debian" if absent else ""


class Held:
    """A hub on a socket that outlives it, as systemd holds that of toolhub.socket."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port: int = self.socket.getsockname()[1]
        self.server = self._started()

    def restart(self) -> None:
        self.end()
        self.server = self._started()

    def end(self) -> None:
        assert self.server.end() == 0, "".join(self.server.errors)

    def close(self) -> None:
        self.server.end()
        self.socket.close()

    def _started(self) -> Server:
        number = self.socket.fileno()
        # As systemd does: the first descriptor after the standard ones, and the pid of this very process.
        script = (
            f"import os, sys; os.dup2({number}, 3)\n"
            "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')\n"
            "os.execv(sys.executable, [sys.executable, '-m', 'toolhub', 'serve'])"
        )
        process = subprocess.Popen(
            [self.home.interpreter, "-c", script],
            env=self.home.environment,
            cwd=CHECKOUT.anchor,
            pass_fds=[number],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        server = Server(process, self.port)
        server.wait()
        return server
