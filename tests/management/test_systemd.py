"""What systemd hands to the hub: a socket, and the address for notifications."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import CHECKOUT
from tools_app.management.hub_command import Abort
from tools_app.management.systemd import notify, passed_socket


def test_variables_for_another_process_are_ignored_and_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid() + 1))
    monkeypatch.setenv("LISTEN_FDS", "1")
    assert passed_socket() is None
    assert not {"LISTEN_PID", "LISTEN_FDS"} & os.environ.keys()


def test_refuses_several_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    monkeypatch.setenv("LISTEN_FDS", "2")
    with pytest.raises(Abort, match="systemd passed 2 sockets; expected one: leave one ListenStream"):
        passed_socket()


@pytest.mark.parametrize(
    ("family", "kind"), [("AF_UNIX", "SOCK_STREAM"), ("AF_INET", "SOCK_DGRAM"), ("AF_INET", "SOCK_STREAM")]
)
def test_takes_a_tcp_socket_only(family: str, kind: str) -> None:
    program = (
        "import os, socket\n"
        f"made = socket.socket(socket.{family}, socket.{kind}); os.dup2(made.fileno(), 3)\n"
        "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')\n"
        "from tools_app.management.systemd import passed_socket\n"
        "print(passed_socket().proto == socket.IPPROTO_TCP)"
    )
    environment = {"PYTHONPATH": str(CHECKOUT), "DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", f"import django; django.setup()\n{program}"],
        env=environment, cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if (family, kind) == ("AF_INET", "SOCK_STREAM"):
        assert done.stdout == "True\n", done.stderr
    else:
        assert "systemd passed another socket than TCP" in done.stderr


@pytest.mark.parametrize("abstract", [False, True])
def test_tells_systemd_what_it_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    address = f"@toolhub-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(f"\0{address[1:]}" if abstract else address)
        told.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        notify("READY=1")
        assert told.recv(100) == b"READY=1"


def test_says_so_if_systemd_cannot_be_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nothing"))
    with pytest.raises(Abort, match="NOTIFY_SOCKET: cannot notify systemd"):
        notify("READY=1")
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify("READY=1")
