"""A database file that disappeared is an error, and is not created again.

SQLite creates any file it opens. A hub whose file is moved away for a moment (a restore, a late mount) would continue
with an empty database. Only the first connection of a process can create the file.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar
from urllib.parse import quote

from django.db.backends.sqlite3 import base


class DatabaseWrapper(base.DatabaseWrapper):
    opened: ClassVar[set[str]] = set()
    inode: int | None = None

    def get_connection_params(self) -> dict[str, Any]:
        params: dict[str, Any] = super().get_connection_params()
        if params["database"] in self.opened:
            params["database"] = f"file:{quote(params['database'])}?mode=rw"
        return params

    def get_new_connection(self, conn_params: Any) -> Any:
        connection = super().get_new_connection(conn_params)
        self.inode = _inode(self.settings_dict["NAME"])
        if self.inode is not None:
            self.opened.add(str(self.settings_dict["NAME"]))
        return connection

    def is_usable(self) -> bool:
        """True if the open file is still the one at the path."""
        return self.inode == _inode(self.settings_dict["NAME"]) and super().is_usable()


def _inode(path: str | os.PathLike[str]) -> int | None:
    try:
        return os.stat(path).st_ino  # noqa: PTH116 – before every commit
    except OSError:
        return None
