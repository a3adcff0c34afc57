"""Secrets go in at every door and come out nowhere; and nothing that a log quotes can forge a line in it.

One life of a hub at the loudest log level: secrets are sent wherever they can come in, tools fail with them, people
look at the pages. Then everything it wrote, kept and said is searched. What callers get back of their own words is not.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import socket
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest

from tests.support.agents import Agent
from tests.support.processes import Home, Server, key_in
from tools_app.base.logs import MOST_BYTES


class Canaries(dict[str, str]):
    """Made-up secrets by what they are for, each unlike all others."""

    def __missing__(self, name: str) -> str:
        self[name] = f"C4{hashlib.sha256(name.encode()).hexdigest()[:30]}"
        return self[name]

    def in_text(self, text: str) -> dict[str, str]:
        """Which of them are in a text, at least half of them, and the text around them."""
        halves = [(name, half) for name, secret in self.items() for half in (secret[:14], secret[-14:])]
        return {name: text[max(0, text.find(half) - 200) :][:300] for name, half in halves if half in text}


FORGERIES = [
    '\r\n{"level":"fatal","message":"FORGED"}\r\n',
    "\n12:00:00 FATAL tools_app: FORGED\n",
    "\x1b[2J\x1b]0;title\x07\x9b31m\x85",
    "a\u2028b\u2029c\x0b\x0c\x1c\x1d\x1e",
    "user\u202egnp.exe\u2066\u2069\u200b\ufeff",
    "a\x00b\x7f",
    "%s %n %d {} {0.__class__} %(levelname)s",
    "\udfff\ud800 \U000e0041\U000e0042",
    "\x1b" * 5_000,
    "\u4e2d" * 300_000,
    "y" * 1_000_000,
]

TOOLS = """
import json, logging, pathlib, warnings
from typing import Any
from toolhub import Context, Hints, tool
from tools_app.sdk.errors import ApiError, ToolError

SECRETS, FORGERIES = json.loads(pathlib.Path(__file__).with_name("trials.json").read_text())
READ = Hints(read_only=True)

@tool(hints=READ)
def keep(settings: dict[str, Any] = {}, headers: list[Any] = [], text: str = "") -> dict[str, bool]:
    "Take anything and give nothing of it back."
    return {"kept": True}

@tool
def change(settings: dict[str, Any] = {}) -> dict[str, bool]:
    "Change something."
    return {"changed": True}

@tool(hints=READ)
def strict(count: int, mode: str = "a") -> int:
    "Take a number."
    return count

@tool(hints=READ)
def give() -> dict[str, str]:
    "Give a secret: whoever may call this may have it."
    return {"token": SECRETS["given by name"], "note": "Bearer " + SECRETS["given in text"]}

def broken() -> None:
    try:
        raise ValueError("https://ann:" + SECRETS["in a cause"] + "@h.test/ refused " + repr(b"x"))
    except ValueError as cause:
        error = RuntimeError("cannot log in: password=" + SECRETS["in an exception"])
        error.add_note("Cookie: a=" + SECRETS["in a note"])
        raise error from cause

@tool(hints=READ)
def explode() -> str:
    "Break in a thread."
    broken()
    return ""

@tool
async def explode_late() -> str:
    "Break, as a tool that writes."
    broken()
    return ""

@tool(hints=READ)
def far() -> str:
    "Fail before the end of a long text."
    raise RuntimeError(("https://ann:" + SECRETS["where a text is cut"] * 15 + "@h.test/ ") * 1_000)

@tool(hints=READ)
def refused(kind: str) -> str:
    "Be refused by an upstream."
    at = "https://ann:" + SECRETS["in an upstream's address"] + "@h.test"
    body = {"headers": [["Authorization", "Basic " + SECRETS["in an upstream's header"]]],
            "error": {"api_key": SECRETS["in an upstream's body"], "at": at}}
    if kind == "text":
        raise ApiError("Refused", detail=json.dumps(body), context={"operation": "read", "statusCode": 401})
    if kind == "object":
        raise ApiError("Refused", detail=body, context={"operation": "read", "errorDetails": body})
    if kind == "cause":
        raise ApiError("Refused", context={"operation": "read"}) from RuntimeError(at)
    context = {"operation": "read", "errorDetails": json.dumps(body)}
    raise ApiError("Refused", detail=RuntimeError(str(body)), context=context)

@tool(hints=READ)
def careless() -> str:
    "Quote a secret in the message, as no author should."
    raise ToolError("The upstream did not take Bearer " + SECRETS["in a message"])

@tool(hints=READ)
def whisper(ctx: Context) -> str:
    "Log secrets in every way."
    secret = SECRETS["logged"]
    ctx.log.info("password=%s", secret)
    ctx.log.debug("sending %s", {"X-N8N-API-KEY": secret, "headers": [{"name": "X-Api-Key", "value": secret}]})
    ctx.log.warning("sent", extra={"headers": {"Cookie": secret}, "url": "https://ann:" + secret + "@h.test"})
    ctx.log.info("got %s", [["Authorization", "Token " + secret], ("Set-Cookie", "a=" + secret)])
    logging.getLogger("some.library").info("Authorization: Bearer %s", secret)
    warnings.warn("token=" + secret)
    try:
        broken()
    except RuntimeError:
        ctx.log.exception("trying again")
    return "said"

@tool(hints=READ)
def say(number: int, ctx: Context) -> str:
    "Log something that wants to be another line."
    text = FORGERIES[number]
    ctx.log.info("SAID %s", text, extra={"quoted": text, "nested": {"deep": [text]}})
    return "said"

@tool(hints=READ)
def fail(number: int) -> str:
    "Raise something that wants to be another line."
    raise RuntimeError(FORGERIES[number])
"""

BROKEN = """
import json, pathlib
SECRETS, _ = json.loads(pathlib.Path(__file__).with_name("trials.json").read_text())
raise RuntimeError("cannot connect to postgres://ann:" + SECRETS["at an import"] + "@h.test")
"""


@dataclass
class Life:
    """What a hub was given, and everything that came of it."""

    home: Home
    secrets: Canaries = field(default_factory=Canaries)
    # Everything that was written, kept and said, by where.
    found: dict[str, list[str]] = field(default_factory=dict)
    # By format: what the server and an agent's process logged, and how many events of a tool are among it.
    lines: dict[str, list[str]] = field(default_factory=lambda: {"json": [], "console": []})
    said: Counter[str] = field(default_factory=Counter)

    def keep(self, where: str, *texts: str) -> None:
        self.found.setdefault(where, []).extend(texts)

    def log(self, where: str, lines: list[str]) -> None:
        self.keep(where, *lines)
        self.lines[self.format] += [line for line in lines if not line.startswith(PROGRESS)]

    @property
    def format(self) -> str:
        return self.home.extra["TOOLHUB_LOG_FORMAT"]


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    folder = tmp_path_factory.mktemp("canaries")
    tools = folder / "tools"
    tools.mkdir()
    (tools / "trials.py").write_text(TOOLS)
    (tools / "broken.py").write_text(BROKEN)
    lived = Life(Home(folder / "home"))
    secrets = lived.secrets
    given = {name: secrets[name] for name in re.findall(r'SECRETS\["(.+?)"\]', TOOLS + BROKEN)}
    (tools / "trials.json").write_text(json.dumps([given, FORGERIES]))
    lived.home.extra |= {
        "LOG_LEVEL": "trace",
        "TOOLHUB_LOG_FILE": str(folder / "log" / "hub.log"),
        "TOOLHUB_ERROR_DETAIL": "message",
        "TOOLHUB_TOOLS_DIR": str(tools),
        "SECRET_KEY": secrets["SECRET_KEY"] * 2,
        "TOOLHUB_ENCRYPTION_KEY": f"{secrets['TOOLHUB_ENCRYPTION_KEY']}-and-more-0123456789-abcdefghij",
        "TOOLHUB_ADMIN_PASSWORD": secrets["TOOLHUB_ADMIN_PASSWORD"],
    }
    with database_for(lived.home, secrets["password of the database"]):
        live(lived)
        look_back(lived)
        yield lived


@contextlib.contextmanager
def database_for(home: Home, password: str) -> Iterator[None]:
    """SQLite in the hub's home, or a database on the server that the tests were given."""
    if os.environ.get("TOOLHUB_TEST_DATABASE") != "postgres":
        yield
        return
    import psycopg

    server = urlsplit(os.environ["TOOLHUB_TEST_POSTGRES_URL"])
    name = f"canaries_{os.getpid()}"
    with psycopg.connect(server._replace(path="/postgres").geturl(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
        place = server.netloc.rpartition("@")[2]
        home.extra["DATABASE_URL"] = f"postgres://{server.username or 'postgres'}:{password}@{place}/{name}"
        try:
            yield
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


# ---- what is done to the hub

# Said to whoever starts a hub for the first time, before there is a log.
PROGRESS = ("Preparing the database", "Tools: ")


def live(life: Life) -> None:
    life.home.extra |= {"TOOLHUB_LOG_FORMAT": "json", "TOOLHUB_PAYLOADS": "full"}
    with life.home.serving() as server:
        made = life.home.run("addkey", FORGERIES[1] + FORGERIES[2], "--scope", "admin:*")
        key = key_in(made.stdout.splitlines()[-1])
        life.secrets["a valid key"] = key.rpartition("_")[2]
        as_caller(life, server, key)
        as_forger(life, server, key)
        as_agent(life)
        as_reader(life, server, key)
        as_person(life, server)
        assert server.end() == 0
        life.keep("the server's output", *server.output)
        life.log("the server's log", server.errors)
    as_operator(life)
    life.home.extra |= {"TOOLHUB_LOG_FORMAT": "console", "TOOLHUB_PAYLOADS": "redacted"}
    with life.home.serving(DEBUG="1") as server:
        as_caller(life, server, key)
        as_forger(life, server, key)
        as_agent(life)
        as_developer(life, server)
        assert server.end() == 0
        life.log("the server's log", server.errors)


def as_operator(life: Life) -> None:
    unreachable = f"postgres://ann:{life.secrets['password of the database']}@127.0.0.1:1/none"
    for command, more, code in (
        (["doctor"], {}, 1),
        (["doctor"], {"DATABASE_URL": unreachable}, 1),
        (["prunelogs", "--dry-run"], {}, 0),
        (["listkeys"], {}, 0),
        (["calltool", "explode", "{}"], {}, 1),
    ):
        done = life.home.run(*command, **more)
        assert done.returncode == code, done.stderr
        life.keep("commands", done.stdout, done.stderr)


def arguments(secrets: Canaries) -> list[dict[str, Any]]:
    """Everything that people put secrets into."""
    basic = base64.b64encode(f"ann:{secrets['Basic']}".encode()).decode()
    secrets["Basic, encoded"] = basic.rstrip("=")
    body = f"MII{secrets['PEM']}\n{secrets['PEM, second line']}"
    kind = "RSA PRIVATE KEY"
    pem = f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"
    jwt = f"eyJhbGciOiJIUzI1NiJ9.eyJ{secrets['JWT']}.{secrets['signature of a JWT']}"
    return [
        {"settings": {"password": secrets["password"], "deep": [{"er": {"api_key": secrets["api_key"]}}]}},
        {"settings": {"client_secret": [secrets["secret"]], "accessToken": {"value": secrets["token"]}}},
        {"settings": {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"X-API-Key": secrets["deep"]}}}}}}}}},
        {"headers": [["Authorization", secrets["header pair"]], {"name": "X-Api-Key", "value": secrets["header"]}]},
        {"headers": [f"Cookie: a={secrets['cookie line']}", {"key": "token", "value": secrets["named by key"]}]},
        {"text": f"https://ann:{secrets['userinfo']}@h.test/?access_token={secrets['query of a URL']}"},
        {"text": f"I sent 'Authorization: Bearer {secrets['Bearer in text']}' and Basic {basic}"},
        {"text": pem, "settings": {"certificate": pem}},
        {"text": f"the JWT is {jwt}", "settings": {"jwt": jwt}},
        {"text": json.dumps({"password": secrets["JSON in text"], "x": json.dumps({"token": secrets["JSON twice"]})})},
        {"text": "x" * 4_080 + f" password={secrets['where arguments are cut']} " + "x" * 5_000},
    ]


@dataclass
class Sender:
    """A REST client that records responses, except `own` ones."""

    life: Life
    client: httpx.Client

    def send(self, method: str, address: str, *, own: bool = False, **more: Any) -> int:
        answer = self.client.request(method, address, **more)
        if not own:
            self.life.keep("answers", answer.text, str(answer.headers))
        return answer.status_code

    def call(self, name: str, parameters: Any, *, own: bool = False, dry: bool = False, **headers: str) -> int:
        body = {"name": name, "parameters": parameters, "options": {"dryRun": dry}}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.send("POST", "/v1/tools/call", json=body, own=own, headers=named)


def as_caller(life: Life, server: Server, key: str) -> None:
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
        sender = Sender(life, client)
        give_secrets(sender, life.secrets)
        meet_failures(sender, life.secrets)
        show_keys(sender, life.secrets)


def give_secrets(sender: Sender, secrets: Canaries) -> None:
    for given in arguments(secrets):
        assert sender.call("keep", given) == 200
        assert sender.call("strict", {"count": given, "mode": given}) == 400
        # What is given back to who gave it.
        assert sender.call("echo", {"message": json.dumps(given)}, own=True) == 200
        assert sender.call("keep", given, own=True, dry=True) == 200
    assert sender.call("keep", f"password={secrets['parameters']}") == 400
    for number, status in ((0, 200), (0, 200), (1, 422)):
        settings = {"password": secrets["password"], "n": number}
        assert sender.call("change", {"settings": settings}, Idempotency_Key=secrets["Idempotency-Key"]) == status
        assert sender.call("give", {}, own=True, Idempotency_Key="give") == 200
    assert sender.call("change", {}, Idempotency_Key=secrets["Idempotency-Key"] * 20) == 400
    for content, kind, status in (
        (f'{{"password": "{secrets["half a body"]}", ', "application/json", 400),
        (f"password={secrets['a form']}", "application/x-www-form-urlencoded", 415),
        (json.dumps({"name": "echo", "password": secrets["unknown field"]}), "application/json", 400),
    ):
        assert sender.send("POST", "/v1/tools/call", content=content, headers={"Content-Type": kind}) == status


def meet_failures(sender: Sender, secrets: Canaries) -> None:
    for broken in ("explode", "explode_late", "far"):
        assert sender.call(broken, {}) == 500
    for kind in ("text", "object", "cause", "exception"):
        assert sender.call("refused", {"kind": kind}) == 502
    assert sender.call("whisper", {}) == 200
    # A message is its author's to word, and what is not there is named as the caller wrote it.
    assert sender.call("careless", {}, own=True) == 500
    assert sender.call(f"Bearer {secrets['name of a tool']}", {}, own=True) == 404
    assert sender.call("strict", {"count": 1, f"token={secrets['name of a parameter']}": 1}, own=True) == 400


def show_keys(sender: Sender, secrets: Canaries) -> None:
    for header, status in (
        ({"Authorization": f"Bearer thub_Ab3dEf6h_{secrets['an unknown key']}{'x' * 17}"}, 401),
        ({"Authorization": f"Bearer {secrets['no key at all']}"}, 401),
        ({"Authorization": f"Basic {secrets['Basic, encoded']}"}, 401),
        ({"X-API-Key": secrets["another key"]}, 401),
        ({"Cookie": f"toolhub_session={secrets['session']}; other={secrets['cookie']}"}, 200),
        ({"User-Agent": f"Bearer {secrets['User-Agent']}", "Referer": f"https://a:{secrets['Referer']}@h.test"}, 200),
    ):
        assert sender.send("GET", "/v1/tools", headers=header) == status
    for query in ("api_key={}", "access_token={}", "token=thub_{}", "x=https://a:{}@h.test", "category=Bearer+{}"):
        sender.send("GET", f"/v1/tools?{query.format(secrets['query'])}")
        sender.send("GET", f"/nowhere?{query.format(secrets['query'])}", own=True)
    sender.send("GET", f"/v1/tools/thub_{secrets['path']}", own=True)
    sender.send("GET", f"/nowhere/Bearer%20{secrets['path']}", own=True)


def as_reader(life: Life, server: Server, key: str) -> None:
    """Read the journal and the keys, as an operator's program would."""
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
        for journal in ("calls", "errors", "audit", "keys"):
            listed = client.get(f"/v1/{journal}?limit=50")
            assert listed.status_code == 200, listed.text
            life.keep("the journal over REST", listed.text)
            for row in listed.json()[{"audit": "entries"}.get(journal, journal)]:
                if journal in ("calls", "errors"):
                    life.keep("the journal over REST", client.get(f"/v1/{journal}/{row['id']}").text)


def as_forger(life: Life, server: Server, key: str) -> None:
    """Quote what wants to be a line of its own, wherever something is quoted."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    with httpx.Client(base_url=server.url, headers=headers, timeout=30) as client:

        def post(name: Any, parameters: Any) -> httpx.Response:
            return client.post("/v1/tools/call", content=json.dumps({"name": name, "parameters": parameters}))

        for number, text in enumerate(FORGERIES):
            assert post("say", {"number": number}).status_code == 200
            life.said[life.format] += 1
            assert post("fail", {"number": number}).status_code == 500
            short = text[:50_000]
            for answer in (post(short, {}), post("keep", {"text": short}), post("keep", {short: short})):
                assert answer.status_code in (200, 400, 404, 414)
            shown = quote(text[:1_000], safe="", errors="replace")
            for address in (f"/v1/tools?category={shown}", f"/v1/tools?{shown}", f"/v1/tools/{shown}", f"/x/{shown}"):
                assert client.get(address).status_code in (200, 400, 404, 414)
    for text in FORGERIES:
        # Past every client: as bytes.
        line = text[:1_000].encode(errors="replace")
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(
                b"GET /nowhere/" + line + b" HTTP/1.1\r\nHost: localhost\r\nUser-Agent: " + line + b"\r\n"
                b"Connection: close\r\n\r\n"
            )
            with contextlib.suppress(OSError):
                while connection.recv(65536):
                    pass


def as_agent(life: Life) -> None:
    secrets = life.secrets
    with Agent(life.home) as agent:
        about = {
            "protocolVersion": agent.era,
            "capabilities": {},
            "clientInfo": {"name": f"Bearer {secrets['name of a client']}{FORGERIES[0]}", "version": FORGERIES[2]},
        }
        agent.result(agent.ask("initialize", about))
        agent.notify("notifications/initialized")
        asked = [agent.ask("tools/list")]
        for given in arguments(secrets):
            asked.append(agent.ask_tool("keep", **given))
            asked.append(agent.ask_tool("strict", count=given))
            asked.append(agent.ask("tools/call", {"name": "keep", "arguments": [given]}))
            asked.append(agent.ask("tools/call", {"name": {"password": secrets["password"]}, "arguments": given}))
        for name, given in (("explode", {}), ("far", {}), ("refused", {"kind": "object"}), ("whisper", {})):
            asked.append(agent.ask_tool(name, **given))
        meta = {"toolhub/idempotencyKey": secrets["Idempotency-Key"], "password": secrets["password"]}
        asked.append(agent.ask("tools/call", {"name": "change", "arguments": {}, "_meta": meta}))
        for number, text in enumerate(FORGERIES):
            asked.append(agent.ask_tool("say", number=number))
            life.said[life.format] += 1
            asked.append(agent.ask_tool("fail", number=number))
            agent.write(json.dumps({"jsonrpc": "2.0", "method": text, "params": {"x": text}}).encode() + b"\n")
            agent.ask(text, {"token": secrets["parameter of a method"]})
            agent.ask("tools/call", {"name": text, "arguments": {text: text}})
        agent.write(f'{{"password": "{secrets["half a line"]}", \n'.encode())
        agent.write(json.dumps({"jsonrpc": "2.0", "id": 1e400, "api_key": secrets["half a line"]}).encode() + b"\n")
        agent.notify("notifications/cancelled", {"requestId": f"token={secrets['id of a request']}"})
        waiting = set(asked)
        while waiting:
            message = agent.next(30)
            if message.get("id") in waiting:
                waiting.discard(message["id"])
                life.keep("answers", json.dumps(message))
        code, _ = agent.leave()
        assert code == 0
        written = agent.errors()
    life.log("the agent's log", [f"{line}\n" for line in written.removesuffix("\n").split("\n")])


def sign_in(life: Life, client: httpx.Client, password: str) -> httpx.Response:
    client.get("/admin/login/")
    form = {"username": "admin", "password": password, "csrfmiddlewaretoken": client.cookies["toolhub_csrf"]}
    answer = client.post("/admin/login/?next=/admin/", data=form)
    life.keep("pages", answer.text)
    return answer


def as_person(life: Life, server: Server) -> None:
    secrets = life.secrets
    with httpx.Client(base_url=server.url, timeout=30) as client:
        assert sign_in(life, client, secrets["a wrong password"]).status_code == 200
        assert sign_in(life, client, secrets["TOOLHUB_ADMIN_PASSWORD"]).status_code == 302
        secrets["session of an administrator"] = client.cookies["toolhub_session"]
        made = client.post(
            "/admin/tools_app/apikey/add/",
            data={
                "name": "made in the admin",
                "scopes": ["tools:list"],
                "kinds": "all",
                "tools": "all",
                "csrfmiddlewaretoken": client.cookies["toolhub_csrf"],
            },
        )
        secrets["a key of the admin"] = key_in(unescape(made.text)).rpartition("_")[2]
        life.keep("pages", *pages(client))
        life.keep("pages", client.get(f"/admin/nowhere/?api_key={secrets['query']}").text)
        with without(life.home, "tools_app_auditentry"):
            broken = client.get("/admin/tools_app/auditentry/")
        assert broken.status_code == 500
        life.keep("pages", broken.text)


def pages(client: httpx.Client) -> list[str]:
    """The pages of the journal, the keys and the tools that a person can reach by links; of each kind the first."""
    seen: Counter[str] = Counter()
    shown, waiting = [], ["/admin/"]
    for address in waiting:
        shown.append(client.get(address).text)
        for found in re.findall(r'href="(/admin/[^"?#]*)"', shown[-1]):
            kind = "/".join(found.split("/")[:4])
            if found not in waiting and seen[kind] < 10 and not re.search("logout|/add/|/delete/|auth/", found):
                seen[kind] += 1
                waiting.append(found)
    for journal in ("call", "errorlog", "errorgroup", "auditentry", "apikey", "toolrecord"):
        assert seen[f"/admin/tools_app/{journal}"] > 1
    return shown


@contextlib.contextmanager
def without(home: Home, table: str) -> Iterator[None]:
    """A hub in which something is broken."""
    with connected(home) as execute:
        execute(f"ALTER TABLE {table} RENAME TO gone")
        try:
            yield
        finally:
            execute(f"ALTER TABLE gone RENAME TO {table}")


def as_developer(life: Life, server: Server) -> None:
    """Look at Django's pages for developers, which show settings, headers and variables."""
    secrets = life.secrets
    given = {"Authorization": f"Bearer {secrets['seen by a developer']}", "X-API-Key": secrets["seen by a developer"]}
    with httpx.Client(base_url=server.url, timeout=30, headers=given) as client:
        assert sign_in(life, client, secrets["TOOLHUB_ADMIN_PASSWORD"]).status_code == 302
        secrets["session of a developer"] = client.cookies["toolhub_session"]
        with without(life.home, "tools_app_auditentry"):
            read = client.get("/admin/tools_app/auditentry/")
        with without(life.home, "auth_user"):
            written = sign_in(life, client, secrets["a wrong password"])
        for shown in (read, written):
            assert shown.status_code == 500
            assert "TOOLHUB_ENCRYPTION_KEY" in shown.text
            assert "Local vars" in shown.text
            life.keep("pages for developers", shown.text)
        life.keep("pages for developers", client.get("/admin/nowhere/").text)


# ---- what is left of it


@contextlib.contextmanager
def connected(home: Home) -> Iterator[Callable[[str], list[Any]]]:
    """The hub's database, seen by another program. Every statement is a transaction."""
    if address := home.extra.get("DATABASE_URL"):
        import psycopg

        with psycopg.connect(address, autocommit=True) as connection:

            def execute(statement: str) -> list[Any]:
                cursor = connection.execute(statement)
                return cursor.fetchall() if cursor.description else []

            yield execute
    else:
        with closing(sqlite3.connect(home.database, timeout=10, isolation_level=None)) as file:
            yield lambda statement: file.execute(statement).fetchall()


# Where Django keeps who is signed in.
KEPT = ("database", "files")


def look_back(life: Life) -> None:
    with connected(life.home) as execute:
        if "DATABASE_URL" in life.home.extra:
            tables = execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        else:
            tables = execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables:
            for row in execute(f"SELECT * FROM {table}"):  # noqa: S608 – the names are the database's own
                cells = (cell.decode("latin-1") if isinstance(cell, bytes) else str(cell) for cell in row)
                life.keep("database", *cells)
    for path in life.home.path.parent.rglob("*"):
        if path.is_file() and path.parent.name != "tools" and path.name != "first-login.txt":
            life.keep("files", path.read_bytes().decode("latin-1"))


@pytest.mark.parametrize(
    "where",
    [
        *("the server's output", "the server's log", "the agent's log", "files", "database"),
        *("answers", "the journal over REST", "pages", "pages for developers", "commands"),
    ],
)
def test_no_secret_is_in(where: str, life: Life) -> None:
    assert len(life.secrets) > 50
    sessions = {"session of an administrator", "session of a developer"}
    found = life.secrets.in_text("\n".join(life.found[where]))
    assert {name: around for name, around in found.items() if name not in sessions or where not in KEPT} == {}


def test_what_was_searched_tells_of_everything_that_happened(life: Life) -> None:
    for where, expected in (
        ("the server's log", "[explode] Error: TOOL_EXECUTION_ERROR"),
        ("the agent's log", "Tool execution failed: explode: RuntimeError: cannot log in: password=***"),
        ("database", "explode_late"),
        ("pages", "explode_late"),
        ("commands", "broken.py"),
        ("the server's output", "broken.py"),
        ("answers", "Tool execution failed: explode: RuntimeError: cannot log in: password=***"),
    ):
        assert expected in "\n".join(life.found[where])


@pytest.mark.parametrize("form", ["json", "console"])
def test_every_failure_that_callers_got_is_in_the_log_by_its_ids(life: Life, form: str) -> None:
    log = "\n".join(life.lines[form])
    answers = [json.loads(text) for text in life.found["answers"] if text.startswith('{"success":false')]
    told = [(error.get("errorId"), error["callId"]) for error in answers if error.get("callId")]
    found = [(error_id, call_id) for error_id, call_id in told if call_id in log]
    assert len(found) >= 15
    assert all(error_id in log for error_id, _ in found if error_id)
    assert sum(bool(error_id) for error_id, _ in found) >= 7
    other = "\n".join(life.lines["console" if form == "json" else "json"])
    assert [ids for ids in told if ids[1] not in log and ids[1] not in other] == []


EVENT = re.compile(r"\d\d:\d\d:\d\d (?:FATAL|ERROR|WARN |INFO |DEBUG|TRACE) [\w.]+: |    ")


@pytest.mark.parametrize("format", ["json", "console"])
def test_one_event_is_one_line_for_any_quoted_text(life: Life, format: str) -> None:
    lines = life.lines[format]
    assert len(lines) > 200
    for line in lines:
        assert line.endswith("\n")
        assert line[:-1].isprintable(), ascii(line[:200])
        assert len(line.encode()) <= MOST_BYTES + 1, line[:300]
        if format == "json":
            event = json.loads(line)
            assert event["message"] != "FORGED"
            assert {"time", "level", "logger"} <= event.keys()
        else:
            assert EVENT.match(line), line[:200]
    assert sum("SAID" in line for line in lines) == life.said[format] == 2 * len(FORGERIES)
