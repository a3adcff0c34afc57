"""The hub's settings, on a throw-away home and a database file of their own.

Which database: SQLite, or PostgreSQL with TOOLHUB_TEST_DATABASE=postgres and TOOLHUB_TEST_POSTGRES_URL.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_home = Path(tempfile.mkdtemp(prefix="toolhub-test-"))
_owner = os.getpid()


def _remove() -> None:
    if os.getpid() == _owner:
        shutil.rmtree(_home, ignore_errors=True)


atexit.register(_remove)

for name in [name for name in os.environ if name.startswith("TOOLHUB_") and not name.startswith("TOOLHUB_TEST_")]:
    del os.environ[name]
os.environ.update(TOOLHUB_HOME=str(_home), TOOLHUB_ENV_FILE=os.devnull, LOG_LEVEL="info")
if os.environ.get("TOOLHUB_TEST_DATABASE") == "postgres":
    os.environ["DATABASE_URL"] = os.environ["TOOLHUB_TEST_POSTGRES_URL"]
else:
    os.environ.pop("DATABASE_URL", None)

from toolhub.settings import *  # noqa: E402
from toolhub.settings import DATABASES, INSTALLED_APPS  # noqa: E402

if DATABASES["default"]["ENGINE"] == "toolhub.sqlite":
    # A file, not memory: several threads and processes work on it at once, as they do in earnest.
    DATABASES["default"]["TEST"] = {"NAME": str(_home / "test.sqlite3")}
    # No test here survives a power cut: waiting for the disk at each commit would only make them slow.
    _options = DATABASES["default"]["OPTIONS"]
    _options["init_command"] = _options["init_command"].replace("synchronous=FULL", "synchronous=OFF")
INSTALLED_APPS = ["tests.database", *INSTALLED_APPS]
# Tests of the hub count its tools; those of the other packs bring theirs.
TOOLHUB_PACKS = ("tests.support.packs.small",)
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
