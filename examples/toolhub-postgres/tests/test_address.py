"""Which database the pack connects to, how, and as whom."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Database, url_of
from psycopg.conninfo import conninfo_to_dict

from toolhub import ConfigurationError, UpstreamUnavailableError, testing
from toolhub_postgres import address, role, session
from toolhub_postgres.tools import query


class TestAddress:
    @pytest.mark.parametrize(
        "url",
        [
            "mysql://reader:hunter2@db/shop",
            "postgresql://db/shop",
            "postgresql://reader:hunter2@/shop",
            "postgresql://reader:hunter2@db",
            "postgresql://reader:hunter2@db/",
            "postgresql://reader:hunter2@db:notaport/shop",
            "postgresql://reader:hunter2@db1,db2/shop",
            "postgresql://reader:hunter2@db/shop#x",
            "postgresql://reader:hunter2@db/shop?host=other",
            "postgresql://reader:hunter2@db/shop?hostaddr=169.254.169.254",
            "postgresql://reader:hunter2@db/shop?service=other",
            "postgresql://reader:hunter2@db/shop?options=-c%20x=y",
            "postgresql://reader:hunter2@db/shop?sslmode=prefer",
            "postgresql://reader:hunter2@db/shop?sslmode",
            "reader:hunter2@db",
        ],
    )
    def test_is_refused_without_its_password(self, url: str) -> None:
        with pytest.raises(ConfigurationError, match="POSTGRES_URL") as refused:
            address.parsed(url)
        assert "hunter2" not in f"{refused.value.as_dict()} {refused.value.detail}"

    def test_has_all_parts_of_the_url(self) -> None:
        found = address.parsed("postgres://re%40der:p%2Fw@Db.Example.org:6432/my%20shop?sslmode=require")
        assert (found.user, found.password, found.host, found.port) == ("re@der", "p/w", "db.example.org", 6432)
        assert (found.database, found.parameters["sslmode"]) == ("my shop", "require")
        assert "p/w" not in repr(found)

    def test_other_machines_have_to_prove_who_they_are(self) -> None:
        assert address.parsed("postgresql://a@db/x").parameters == {"sslmode": "verify-full", "sslrootcert": "system"}
        for host in ("localhost", "127.0.0.1", "[::1]"):
            assert address.parsed(f"postgresql://a@{host}/x").parameters == {"sslmode": "prefer"}

    @pytest.mark.parametrize(
        "host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "0.0.0.0", "224.0.0.1"]
    )
    def test_leads_to_no_network_of_the_machine_itself(self, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("POSTGRES_URL", f"postgresql://reader@{host}/shop")
        with pytest.raises(ConfigurationError, match="leads to"):
            testing.call(query, sql="SELECT 1")

    def test_the_address_that_was_checked_is_the_one_connected_to(self) -> None:
        conninfo = conninfo_to_dict(asyncio.run(address.parsed("postgresql://a:b@localhost/x").conninfo()))
        addresses = str(conninfo["hostaddr"]).split(",")
        assert set(addresses) <= {"127.0.0.1", "::1"}
        assert str(conninfo["host"]).split(",") == ["localhost"] * len(addresses)

    def test_a_database_that_is_away_is_no_fault_of_the_tool(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("POSTGRES_URL", "postgresql://reader:hunter2@127.0.0.1:1/shop")
        with pytest.raises(UpstreamUnavailableError, match="cannot be reached") as refused:
            testing.call(query, sql="SELECT 1")
        assert refused.value.retryable
        assert "127.0.0.1" not in str(refused.value.as_dict())

    def test_a_sign_in_that_is_refused_names_neither_user_nor_database(
        self, database: Database, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("POSTGRES_URL", url_of(database.name, "nobody_of_this_name", "hunter2"))
        with pytest.raises(UpstreamUnavailableError) as refused:
            testing.call(query, sql="SELECT 1")
        assert "nobody_of_this_name" not in str(refused.value.as_dict())

    def test_it_can_be_in_a_file(self, database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "url").write_text(f"{database.reader_url}\n")
        monkeypatch.delenv("POSTGRES_URL", raising=False)
        monkeypatch.setenv("POSTGRES_URL_FILE", str(tmp_path / "url"))
        assert testing.call(query, sql="SELECT current_database()")["rows"] == [[database.name]]

    def test_the_environment_of_libpq_changes_nothing(self, reader: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {
            "PGHOST": "192.0.2.1",
            "PGHOSTADDR": "192.0.2.1",
            "PGUSER": "mallory",
            "PGDATABASE": "mallory",
            "PGOPTIONS": "-c search_path=mallory",
            "PGAPPNAME": "mallory",
            "PGPASSFILE": "/nowhere",
        }.items():
            monkeypatch.setenv(name, value)
        sql = "SELECT current_database(), current_setting('application_name'), current_setting('search_path')"
        ((name, application, path),) = testing.call(query, sql=sql)["rows"]
        assert (name, application) == (reader.name, "toolhub")
        assert "mallory" not in path


class TestRole:
    def test_that_only_reads_is_fine(self, reader: Database) -> None:
        assert _excess() == []

    def test_that_may_write_is_named_with_what_it_may(
        self, database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("POSTGRES_URL", database.writer_url)
        (sentence,) = _excess()
        assert sentence.endswith("may write to shop.orders")
        with caplog.at_level(logging.WARNING, "toolhub_postgres"):
            asyncio.run(role.warn())
        assert sentence in caplog.text

    def test_a_superuser_is_named(self, owner: Database) -> None:
        if not owner.value("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"):
            pytest.skip("the user of TOOLHUB_TEST_POSTGRES_URL is no superuser")
        (sentence,) = _excess()
        assert "superuser" in sentence

    def test_a_database_that_is_away_does_not_stop_the_pack(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("POSTGRES_URL", "postgresql://reader:hunter2@127.0.0.1:1/shop")
        with caplog.at_level(logging.WARNING, "toolhub_postgres"):
            asyncio.run(role.warn())
        assert "was not checked" in caplog.text
        assert "hunter2" not in caplog.text

    def test_an_address_that_cannot_be_used_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("POSTGRES_URL", "not a url")
        with pytest.raises(ConfigurationError):
            asyncio.run(role.warn())

    def test_operators_can_ask(self, database: Database) -> None:
        for url, code, words in (
            (database.reader_url, 0, "only read"),
            (database.writer_url, 1, "may write to shop.orders"),
            ("postgresql://reader:hunter2@127.0.0.1:1/shop", 1, "cannot be reached"),
        ):
            done = subprocess.run(
                [sys.executable, "-m", "toolhub_postgres"],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "POSTGRES_URL": url},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == code, done.stderr
            assert words in done.stdout + done.stderr
            assert "hunter2" not in done.stdout + done.stderr


def _excess() -> list[str]:
    async def found() -> list[str]:
        async with session.within(10, "test") as opened:
            return await role.excess(opened)

    return asyncio.run(found())
