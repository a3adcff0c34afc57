"""Runs a command under restrictions of a unit, as far as that is possible where systemd is not the first process.

    python confined.py UNIT COMMAND…

applies the filter of system calls and the address families. `command` adds capabilities, NoNewPrivileges and
ProtectSystem=strict, with a directory in place of the state directory. Only root can do that. The command runs as the
same user, without capabilities.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM
# SCMP_CMP_EQ
_EQUAL: Final = 4
# systemd always permits what it needs to start the program.
_ALWAYS: Final = ("execve", "exit", "exit_group", "rt_sigreturn")


class _Comparison(ctypes.Structure):
    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


def values(unit: str, name: str) -> list[str]:
    """The values of a setting of the unit, one for each line."""
    return re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)


def groups() -> dict[str, list[str]]:
    """The groups of system calls that this systemd knows."""
    done = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = {}
    name = ""
    for line in re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines():
        word = line.strip()
        if line.startswith("@"):
            found[name := word] = []
        elif word and not word.startswith("#"):
            found[name].append(word)
    return found


def permitted(unit: str) -> set[str]:
    """The system calls that the unit permits."""
    known = groups()

    def expanded(name: str) -> set[str]:
        return set().union(*map(expanded, known[name])) if name.startswith("@") else {name}

    calls = set(_ALWAYS)
    for line in values(unit, "SystemCallFilter"):
        named = set().union(*map(expanded, line.removeprefix("~").split()))
        calls = calls - named if line.startswith("~") else calls | named
    return calls


def restrict(unit: str) -> None:
    """Apply the filter to this process, and all that it starts."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(_REFUSE))
    for call in permitted(unit):
        number = library.seccomp_syscall_resolve_name(call.encode())
        if number >= 0 and call != "socket":
            assert library.seccomp_rule_add(context, ctypes.c_uint32(_ALLOW), number, 0) == 0, call
    number = library.seccomp_syscall_resolve_name(b"socket")
    (families,) = values(unit, "RestrictAddressFamilies")
    for family in families.split():
        equal = (_Comparison * 1)(_Comparison(0, _EQUAL, getattr(socket, family), 0))
        assert library.seccomp_rule_add_array(context, ctypes.c_uint32(_ALLOW), number, 1, equal) == 0
    assert library.seccomp_load(context) == 0


def command(unit: Path, state: Path, arguments: list[str]) -> list[str]:
    """What runs these arguments under the restrictions of the unit."""
    read_only = 'mount --bind "$0" "$0" && mount --bind /tmp /tmp && mount -o remount,bind,ro / && exec "$@"'
    without_privileges = ["setpriv", "--no-new-privs", "--bounding-set", "-all", "--inh-caps", "-all"]
    own = [sys.executable, __file__, str(unit), *arguments]
    return ["unshare", "--mount", "sh", "-c", read_only, str(state), *without_privileges, *own]


if __name__ == "__main__":
    restrict(Path(sys.argv[1]).read_text())
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - the command of the test
