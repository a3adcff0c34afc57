"""What systemd hands to the processes that it starts: a socket that is already open, and one for notifications.

See sd_listen_fds(3) and sd_notify(3). A socket that systemd holds stays open while the hub restarts: clients wait
instead of being refused.
"""

from __future__ import annotations

import os
import socket
from typing import Final

from tools_app.management.hub_command import REFUSED, Abort

FIRST_DESCRIPTOR: Final = 3


def passed_socket() -> socket.socket | None:
    """The socket of the `.socket` unit; None if there is none.

    Raises:
        Abort: there are several, or it is not a TCP socket.
    """
    pid, number = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    if pid != str(os.getpid()):
        return None
    if number != "1":
        raise Abort(
            f"systemd passed {number} sockets; expected one: leave one ListenStream in the .socket unit", REFUSED
        )
    listener = socket.socket(fileno=FIRST_DESCRIPTOR)
    if listener.family not in (socket.AF_INET, socket.AF_INET6) or listener.type != socket.SOCK_STREAM:
        raise Abort(
            "systemd passed another socket than TCP; expected an address like ListenStream=127.0.0.1:3000", REFUSED
        )
    return listener


def notify(state: str) -> None:
    """Tell systemd, if it asked for it (`Type=notify`).

    Raises:
        Abort: systemd cannot be reached.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            # A name with @ is in the abstract namespace, where it begins with a NUL byte.
            sender.sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
    except OSError as error:
        raise Abort(f"NOTIFY_SOCKET: cannot notify systemd ({error.strerror})") from error
