"""The directory of a hub's state: made for its owner alone, its secrets generated once."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolhub import home

ROOT = Path(__file__).parent.parent


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_is_made_for_its_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "b"
    assert home.prepare(directory) == directory
    assert mode(directory) == 0o700
    home.prepare(directory)


def test_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, file / "inner"):
        with pytest.raises(OSError, match="file") as caught:
            home.prepare(path)
        assert caught.value.filename


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError) as caught:
        home.prepare(tmp_path)
    tmp_path.chmod(0o700)
    assert (caught.value.filename, caught.value.strerror) == (str(tmp_path), "Permission denied")


class TestSecrets:
    def test_are_generated_once_and_kept(self, tmp_path: Path) -> None:
        secret = home.secret(tmp_path, "secret_key")
        assert len(base64.urlsafe_b64decode(secret)) == 48
        assert home.secret(tmp_path, "secret_key") == secret
        assert home.secret(tmp_path, "other_key") != secret

    def test_can_be_read_by_their_owner_only(self, tmp_path: Path) -> None:
        home.secret(tmp_path, "secret_key")
        assert mode(tmp_path / "secret_key") == 0o600

    def test_leave_nothing_else_behind(self, tmp_path: Path) -> None:
        home.secret(tmp_path, "secret_key")
        home.secret(tmp_path, "secret_key")
        assert os.listdir(tmp_path) == ["secret_key"]  # noqa: PTH208 – hidden files, too

    def test_of_an_operator_are_taken_as_they_are(self, tmp_path: Path) -> None:
        (tmp_path / "secret_key").write_text("chosen-by-hand\n")
        assert home.secret(tmp_path, "secret_key") == "chosen-by-hand"

    def test_that_are_empty_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "secret_key").write_text("\n")
        with pytest.raises(OSError, match="the file is empty; delete it to generate a new one") as caught:
            home.secret(tmp_path, "secret_key")
        assert caught.value.filename == str(tmp_path / "secret_key")

    def test_are_the_same_for_all_who_start_at_once(self, tmp_path: Path) -> None:
        with ThreadPoolExecutor(16) as pool:
            secrets = set(pool.map(lambda _: home.secret(tmp_path, "secret_key"), range(64)))
        assert len(secrets) == 1
        assert len(list(tmp_path.iterdir())) == 1

    def test_are_the_same_for_processes_that_start_at_once(self, tmp_path: Path) -> None:
        code = "import sys, pathlib; from toolhub import home; print(home.secret(pathlib.Path(sys.argv[1]), 'key'))"
        running = [
            subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
            for _ in range(4)
        ]
        assert len({process.communicate(timeout=30)[0] for process in running}) == 1
        assert [process.returncode for process in running] == [0] * 4

    def test_that_cannot_be_written_leave_nothing_behind(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match="nowhere"):
            home.secret(tmp_path / "nowhere", "secret_key")
        assert list(tmp_path.iterdir()) == []


class TestTheDefault:
    def test_of_a_checkout_is_its_var(self) -> None:
        assert home.default_directory() == ROOT / "var"

    def test_of_an_installed_package_is_where_the_platform_keeps_data(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(home, "CHECKOUT", tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
        assert home.default_directory() == tmp_path / ".local" / "share" / "toolhub"
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        assert home.default_directory() == tmp_path / "data" / "toolhub"
        monkeypatch.setattr(sys, "platform", "darwin")
        assert home.default_directory() == tmp_path / "Library" / "Application Support" / "toolhub"
