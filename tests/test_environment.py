"""Every value of the environment is checked, and every fault names its variable and what it takes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from toolhub.environment import Environment
from tools_app.base.setting_table import DATABASE, SECURE_ADDRESS, UPSTREAM, is_network, is_origin
from tools_app.sdk.variables import FLAG, LINE, PATH, Type, choice, names, seconds, whole_number

ROOT = Path(__file__).parent.parent


def read(type_: Type[Any], default: Any = "", **variables: str) -> tuple[Any, list[str]]:
    """The value of the variable `X`, and the faults."""
    environment = Environment(variables)
    return environment.read("X", type_, default), environment.faults


@pytest.mark.parametrize(
    ("type_", "default"),
    [(LINE, "d"), (whole_number(1, 9), 5), (seconds(0, 9), 0.5), (FLAG, True), (choice("a", "b"), "a"), (PATH, None)],
)
def test_what_is_not_set_or_blank_has_its_default(type_: Type[Any], default: Any) -> None:
    for variables in ({}, {"X": ""}, {"X": "  \n"}):
        assert read(type_, default, **variables) == (default, [])


@pytest.mark.parametrize(
    ("address", "taken"),
    [
        *(("https://login.example.org/realms/work", True), ("https://login.example.org/", True)),
        *(
            ("https://login.example.org:8443/a?p=b", True),
            ("http://127.0.0.1:9000", True),
            ("http://localhost/x", True),
        ),
        *(("http://login.example.org", False), ("login.example.org", False), ("https://me@login.example.org", False)),
        *(("https://login.example.org/#a", False), ("https://login.example.org/a b", False), ("ftp://a", False)),
        *(("http://127.evil.example", False), ("http://localhost.evil.example", False), ("https://a:b", False)),
    ],
)
def test_an_address_can_be_trusted_on_the_way(address: str, taken: bool) -> None:
    value, faults = read(SECURE_ADDRESS, X=address)
    assert (value, bool(faults)) == ((address, False) if taken else ("", True))


def test_the_directory_of_secrets_exists(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none", tmp_path / "file"):
        environment = Environment({"TOOLHUB_SECRETS_DIR": str(path)})
        assert environment("TOOLHUB_SECRETS_DIR") is None
        expected = f"TOOLHUB_SECRETS_DIR: expected a directory that this user can read, found {str(path)[:60]!r}"
        assert environment.faults == [expected]
    assert Environment({"TOOLHUB_SECRETS_DIR": str(tmp_path)})("TOOLHUB_SECRETS_DIR") == tmp_path


class TestText:
    def test_is_taken_without_the_space_around_it(self) -> None:
        assert read(LINE, X=" a b \n") == ("a b", [])

    def test_can_come_from_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "secret"
        file.write_text("from the file – ü\n", encoding="utf-8")
        assert read(LINE, "d", X_FILE=str(file)) == ("from the file – ü", [])

    def test_cannot_come_from_both(self, tmp_path: Path) -> None:
        file = tmp_path / "secret"
        file.write_text("a")
        assert read(LINE, "d", X="b", X_FILE=str(file)) == ("d", ["X: set it or X_FILE, not both"])
        assert read(LINE, X="b", X_FILE=" ") == ("b", [])

    def test_in_a_file_that_cannot_be_read_is_a_fault(self, tmp_path: Path) -> None:
        binary, empty = tmp_path / "binary", tmp_path / "empty"
        binary.write_bytes(b"\xff\xfe")
        empty.write_text("\n")
        missing = tmp_path / "missing"
        for file, fault in (
            (missing, f"cannot read {missing} (No such file or directory)"),
            (tmp_path, f"cannot read {tmp_path} (Is a directory)"),
            (binary, f"{binary} is not UTF-8 text"),
            (empty, f"{empty} is empty"),
        ):
            assert read(LINE, "d", X_FILE=str(file)) == ("d", [f"X_FILE: {fault}"])


@pytest.mark.parametrize("text", ["http://localhost:8080", "https://a.test/searx/", "http://[::1]:80"])
def test_an_upstream_is_taken(text: str) -> None:
    assert read(UPSTREAM, X=text) == (text, [])


@pytest.mark.parametrize(
    "text", ["a.test", "ftp://a.test", "https://me:secret@a.test/", "http://a.test/?q=1", "http://a b"]
)
def test_an_upstream_without_an_address_is_not_repeated(text: str) -> None:
    assert read(UPSTREAM, X=text)[1] == ["X: expected an address like https://HOST/PATH, without a name and password"]


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("9", 9), (" 7 ", 7), ("007", 7), ("-3", -3), ("0", 0)])
def test_a_number_within_its_range_is_taken(text: str, number: int) -> None:
    assert read(whole_number(-5, 9), 5, X=text) == (number, [])


@pytest.mark.parametrize(
    "text", ["10", "-6", "1.0", "1e0", "x", "--5", "-", "+1", "1_0", "٣", "0" * 20 + "9", "9" * 30, "1 2", "0x1", "nan"]
)
def test_any_other_number_is_a_fault(text: str) -> None:
    assert read(whole_number(-5, 9), 5, X=text) == (5, [f"X: expected a whole number from -5 to 9, found {text!r}"])


@pytest.mark.parametrize(("text", "number"), [("0.2", 0.2), ("60", 60.0), ("1.50", 1.5)])
def test_seconds_within_their_range_are_taken(text: str, number: float) -> None:
    assert read(seconds(0.1, 60), 5.0, X=text) == (number, [])


@pytest.mark.parametrize("text", ["0", "61", "x", "nan", "inf", "-1", "1_0", "1e1", "1.", ".5", "1,5"])
def test_any_other_seconds_are_a_fault(text: str) -> None:
    assert read(seconds(0.1, 60), 5.0, X=text) == (5.0, [f"X: expected seconds from 0.1 to 60, found {text!r}"])


@pytest.mark.parametrize(
    ("text", "flag"),
    [("1", True), ("TRUE", True), ("yes", True), ("On", True), ("0", False), ("No", False), ("off", False)],
)
def test_flags_have_several_spellings(text: str, flag: bool) -> None:
    assert read(FLAG, not flag, X=text) == (flag, [])


@pytest.mark.parametrize("text", ["2", "y", "enabled", "tru"])
def test_any_other_flag_is_a_fault(text: str) -> None:
    assert read(FLAG, True, X=text) == (True, [f"X: expected true or false, found {text!r}"])


def test_a_choice_is_one_of_those_there_are_in_any_case() -> None:
    assert read(choice("info", "debug"), "info", X="DEBUG") == ("debug", [])
    assert read(choice("info", "debug"), "info", X="loud") == (
        "info",
        ["X: expected one of info, debug, found 'loud'"],
    )


def test_a_default_in_the_table_is_not_shared() -> None:
    first = Environment({})("ALLOWED_HOSTS")
    first.append("a.test")
    assert Environment({})("ALLOWED_HOSTS") == ["localhost", "127.0.0.1", "[::1]"]


def test_the_first_name_that_does_not_fit_is_quoted() -> None:
    fault = "X: expected addresses, found 'everybody'"
    assert read(names(is_network, "addresses"), [], X="10.0.0.0/8, everybody, ?") == ([], [fault])


def test_names_are_split_at_commas() -> None:
    assert read(names(), ["d"], X=" a, b ,,c ") == (["a", "b", "c"], [])


def test_a_path_is_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert read(PATH, None, X="~/a") == (tmp_path / "a", [])
    assert read(PATH, None, X="a/b") == (tmp_path / "a" / "b", [])
    assert read(PATH, None, X="~nobody-of-that-name/a") == (
        None,
        ["X: expected a path, found '~nobody-of-that-name/a'"],
    )


class TestDatabases:
    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("sqlite:////srv/hub.sqlite3", {"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/hub.sqlite3"}),
            (
                "postgres://ann:p%40ss@db.test:5433/hub",
                {
                    "ENGINE": "django.db.backends.postgresql",
                    "NAME": "hub",
                    "USER": "ann",
                    "PASSWORD": "p@ss",
                    "HOST": "db.test",
                    "PORT": 5433,
                },
            ),
        ],
    )
    def test_of_the_two_kinds_are_taken(self, url: str, expected: dict[str, Any]) -> None:
        found, faults = read(DATABASE, {}, X=url)
        assert expected.items() <= found.items()
        assert faults == []

    @pytest.mark.parametrize("url", ["mysql://ann:hunter2@db.test/hub", "hunter2", "postgres://ann:hunter2@db:port/x"])
    def test_of_another_kind_are_a_fault_that_does_not_repeat_the_password(self, url: str) -> None:
        _, (fault,) = read(DATABASE, {}, X=url)
        assert fault.startswith("X: expected sqlite:///PATH or postgres://")
        assert "hunter2" not in fault


def test_a_value_can_be_checked_further() -> None:
    environment = Environment({})
    assert environment.require("X", "https://a", lambda origin: "://" in origin, "origins") == "https://a"
    assert environment.faults == []
    for origin in ("a" * 100, "b"):
        environment.require("X", origin, lambda origin: "://" in origin, "origins")
    assert environment.faults == [f"X: expected origins, found {'a' * 60!r}"]


@pytest.mark.parametrize("text", ["127.0.0.1", "10.0.0.0/8", "::1", "2001:db8::/32"])
def test_knows_addresses_and_networks(text: str) -> None:
    assert is_network(text)


@pytest.mark.parametrize("text", ["", "*", "proxy.example.org", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0:80"])
def test_knows_what_is_no_network(text: str) -> None:
    assert not is_network(text)


@pytest.mark.parametrize("text", ["https://app.example.org", "http://localhost:5173", "http://[::1]:80", "*"])
def test_knows_origins(text: str) -> None:
    assert is_origin(text)


@pytest.mark.parametrize(
    "text",
    ["app.example.org", "https://a/", "https://a/b", "https://*.a", "HTTPS://a", "ftp://a", "null", "https://a\n"],
)
def test_knows_what_no_browser_sends_as_an_origin(text: str) -> None:
    assert not is_origin(text)


def test_all_faults_are_reported_together() -> None:
    environment = Environment({"PORT": "x", "DEBUG": "maybe"})
    environment.finish()
    assert (environment("PORT"), environment("DEBUG")) == (3000, False)
    with pytest.raises(ImproperlyConfigured) as caught:
        environment.finish()
    assert str(caught.value).splitlines() == [
        "PORT: expected a whole number from 1 to 65535, found 'x'",
        "DEBUG: expected true or false, found 'maybe'",
    ]


Start = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start a hub's command with these variables, on an empty home."""

    def started(**variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "SYSTEMROOT") if name in os.environ}
        own = {"TOOLHUB_HOME": str(tmp_path / "home"), "TOOLHUB_ENV_FILE": os.devnull}
        command = [sys.executable, "-m", "toolhub", "diffsettings", "--output", "hash"]
        return subprocess.run(
            command, cwd=ROOT, env=kept | own | variables, capture_output=True, text=True, check=False
        )

    return started


def test_a_hub_with_wrong_settings_does_not_start_and_says_which(start: Start) -> None:
    done = start(
        PORT="0",
        LOG_LEVEL="loud",
        DATABASE_URL="mysql://a:hunter2@b/c",
        TOOLHUB_TIMEOUT_MS="99",
        TOOLHUB_CORS_ORIGINS="https://a.example/",
        TOOLHUB_TRUSTED_PROXIES="everybody",
        TOOLHUB_OAUTH_ISSUER="https://a:hunter2@login.example",
        WEBSEARCH_SEARXNG_URL="https://a:hunter2@search.example",
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert sorted(line.split(":")[1].strip() for line in done.stderr.splitlines()) == [
        *("DATABASE_URL", "LOG_LEVEL", "PORT", "TOOLHUB_CORS_ORIGINS", "TOOLHUB_OAUTH_ISSUER", "TOOLHUB_TIMEOUT_MS"),
        *("TOOLHUB_TRUSTED_PROXIES", "WEBSEARCH_SEARXNG_URL"),
    ]
    assert all(line.startswith("toolhub: ") for line in done.stderr.splitlines())
    assert "hunter2" not in done.stderr


def test_pages_of_other_sites_come_in_where_two_variables_say_so(start: Start) -> None:
    def origins(**variables: str) -> str:
        done = start(**variables)
        lines = (line.removesuffix("  ###") for line in done.stdout.splitlines())
        return next((line for line in lines if line.startswith("TOOLHUB_CORS_ORIGINS")), done.stderr)

    two = "https://a.example,https://b.example"
    assert origins(CORS_ENABLED="true", CORS_ORIGIN=two).endswith("= ['https://a.example', 'https://b.example']")
    assert origins(CORS_ENABLED="true", CORS_ORIGIN="*", TOOLHUB_CORS_ORIGINS=two).endswith("'https://b.example', '*']")
    for off in ({}, {"CORS_ENABLED": "false"}):
        assert origins(CORS_ORIGIN=two, **off).endswith("= []")
    expected = "expected origins like https://app.example.org, or *, with CORS_ENABLED"
    assert origins(CORS_ENABLED="true") == f"toolhub: CORS_ORIGIN: {expected}, found ''\n"
    assert origins(CORS_ENABLED="true", CORS_ORIGIN="a.example").startswith(f"toolhub: CORS_ORIGIN: {expected}")
    assert origins(CORS_ENABLED="1") == "toolhub: CORS_ENABLED: expected one of true, false, found '1'\n"


def test_tokens_are_not_accepted_for_any_host_name(start: Start) -> None:
    given = {"TOOLHUB_OAUTH_ISSUER": "https://login.example", "ALLOWED_HOSTS": "hub.example,.example"}
    done = start(TOOLHUB_OAUTH_SCOPES="tools:list,admin:*", **given)
    assert done.returncode == 2
    assert sorted(line.split(":")[1].strip() for line in done.stderr.splitlines()) == [
        *("TOOLHUB_OAUTH_AUDIENCE", "TOOLHUB_OAUTH_SCOPES"),
    ]
    assert start(TOOLHUB_OAUTH_AUDIENCE="api://hub", **given).returncode == 0


STRONG = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOOLHUB_ENCRYPTION_KEY", "x"),
        ("TOOLHUB_ENCRYPTION_KEY", "a" * 64),
        ("TOOLHUB_ENCRYPTION_KEY", f"x,{STRONG}"),
        ("SECRET_KEY_FALLBACKS", "x"),
        ("SECRET_KEY_FALLBACKS", f"{STRONG},hunter2"),
    ],
)
def test_a_key_that_can_be_guessed_stops_the_start_and_is_not_repeated(start: Start, name: str, value: str) -> None:
    done = start(**{name: value})
    assert done.returncode == 2
    assert done.stderr == (
        f"toolhub: {name}: too easy to guess; expected at least 32 random characters, as from `openssl rand -hex 32`\n"
    )


def test_a_weak_key_for_encryption_can_be_left_behind(start: Start) -> None:
    assert start(TOOLHUB_ENCRYPTION_KEY=f"{STRONG},x", SECRET_KEY_FALLBACKS=STRONG).returncode == 0


def test_bounds_of_tokens_that_cannot_be_read_stop_the_start(start: Start) -> None:
    done = start(
        TOOLHUB_OAUTH_TOOLSETS="wiki,no such name",
        TOOLHUB_OAUTH_ACCESS="readonly",
        TOOLHUB_OAUTH_ASKS="always",
        TOOLHUB_OAUTH_BY_SCOPE="ture",
    )
    assert done.returncode == 2
    assert sorted(line.split(":")[1].strip() for line in done.stderr.splitlines()) == [
        *("TOOLHUB_OAUTH_ACCESS", "TOOLHUB_OAUTH_ASKS", "TOOLHUB_OAUTH_BY_SCOPE", "TOOLHUB_OAUTH_TOOLSETS"),
    ]


def test_a_file_of_settings_that_is_not_there_stops_the_start(start: Start, tmp_path: Path) -> None:
    done = start(TOOLHUB_ENV_FILE=str(tmp_path / "typo.env"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"toolhub: TOOLHUB_ENV_FILE: there is no file {tmp_path / 'typo.env'}\n"


def test_a_hub_whose_log_cannot_be_written_does_not_start_and_says_so(start: Start, tmp_path: Path) -> None:
    done = start(TOOLHUB_LOG_FILE=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == f"toolhub: TOOLHUB_LOG_FILE: cannot write {tmp_path} (Is a directory)\n"


def test_a_hub_needs_no_settings_at_all(start: Start) -> None:
    done = start()
    assert (done.returncode, done.stderr) == (0, "")
    assert "TOOLHUB_TIMEOUT_MS = 30000" in done.stdout
