"""A small authorization server that does what a test says, in a thread. It keeps clients, codes and families of tokens.

    with oauth_server.running() as server:
        server.lifetime = 2
        server.fail("/token", status=503)
        …                                   # server.issuer, server.accepts(header)
        assert server.count("refresh_token") == 1

Whoever comes to `/authorize` has signed in already, and consents. Needs neither pytest nor ToolHub.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

Json = dict[str, Any]


@dataclass
class Fault:
    """What happens to requests of one path instead of their answers."""

    status: int = 0
    body: Json | bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0
    # The request is carried out, and its answer is lost.
    lost: bool = False
    # For how long the connection stays open then.
    holds: float = 0
    times: int = 1
    # Set when a request has been carried out whose answer is lost.
    done: threading.Event = field(default_factory=threading.Event)


@dataclass
class Family:
    """What came of one sign-in."""

    client_id: str
    scope: str
    refresh: str = ""
    used: set[str] = field(default_factory=set)
    is_revoked: bool = False


class OAuthServer:
    def __init__(self) -> None:
        self.issuer = ""
        self.lifetime: float | None = 3600
        self.rotates = True
        self.issues_refresh = True
        # What the metadata says.
        self.supports_pkce = True
        self.registers = True
        self.takes_documents = False
        self.names_issuer = True
        self.named_issuer = ""  # instead of its own
        self.metadata: Json = {}
        # Clients: id → secret, empty if it has none.
        self.clients: dict[str, str] = {"entered": "s3cret-of-client"}
        self.redirect_uris: dict[str, list[str]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.faults: dict[str, Fault] = {}
        self.revoked: list[str] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._families: list[Family] = []
        self._access: dict[str, tuple[Family, float]] = {}
        self._lock = threading.Lock()
        self._number = Counter[str]()

    # ---- for tests

    def count(self, grant_type: str) -> int:
        """How many requests for tokens were granted, by their type."""
        return self._number[grant_type]

    def fail(self, path: str, **values: Any) -> Fault:
        self.faults[path] = fault = Fault(**values)
        return fault

    def accepts(self, header: str) -> bool:
        """Whether an Authorization header has a valid token."""
        family, until = self._access.get(header.removeprefix("Bearer "), (None, 0.0))
        return family is not None and not family.is_revoked and time.time() < until

    def expire(self) -> None:
        """All access tokens end now."""
        with self._lock:
            self._access.clear()

    def revoke_all(self) -> None:
        with self._lock:
            for family in self._families:
                family.is_revoked = True

    def forget_clients(self) -> None:
        self.clients.clear()

    def browse(self, url: str) -> str:
        """What the browser of somebody who consents is sent to."""
        parameters = dict(parse_qsl(urlsplit(url).query))
        return self.authorize(parameters)

    # ---- endpoints

    def documents(self) -> dict[str, Json]:
        document: Json = {
            "issuer": self.named_issuer or self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            "authorization_response_iss_parameter_supported": self.names_issuer,
            "client_id_metadata_document_supported": self.takes_documents,
            **({"code_challenge_methods_supported": ["S256"]} if self.supports_pkce else {}),
            **({"registration_endpoint": f"{self.issuer}/register"} if self.registers else {}),
            **self.metadata,
        }
        return {"/.well-known/oauth-authorization-server": document}

    def authorize(self, parameters: Mapping[str, str]) -> str:
        client_id, redirect_uri = parameters["client_id"], parameters["redirect_uri"]
        if client_id not in self.clients and not (self.takes_documents and client_id.startswith("https://")):
            raise ValueError("unknown client")
        if redirect_uri not in self.redirect_uris.get(client_id, [redirect_uri]):
            raise ValueError("unknown redirect URI")
        if parameters.get("code_challenge_method") != "S256" or parameters["response_type"] != "code":
            raise ValueError("PKCE is required")
        code = secrets.token_urlsafe(16)
        self._codes[code] = dict(parameters)
        answer = {"code": code, "state": parameters["state"], **({"iss": self.issuer} if self.names_issuer else {})}
        return f"{redirect_uri}?{urlencode(answer)}"

    def token(self, form: Mapping[str, str], client_id: str, secret: str) -> tuple[int, Json]:
        with self._lock:
            known = self.clients.get(client_id)
            is_described = self.takes_documents and client_id.startswith("https://")
            if not is_described and (known is None or known != secret):
                return 401, {"error": "invalid_client"}
            match form.get("grant_type"):
                case "authorization_code":
                    return self._by_code(form, client_id)
                case "refresh_token":
                    return self._by_refresh(form, client_id)
                case "client_credentials":
                    return self._granted(Family(client_id, form.get("scope", "")), "client_credentials", refresh=False)
            return 400, {"error": "unsupported_grant_type"}

    def _by_code(self, form: Mapping[str, str], client_id: str) -> tuple[int, Json]:
        begun = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        wanted = (client_id, form.get("redirect_uri"), challenge)
        if begun is None or wanted != (begun["client_id"], begun["redirect_uri"], begun["code_challenge"]):
            return 400, {"error": "invalid_grant"}
        family = Family(client_id, begun.get("scope", ""))
        return self._granted(family, "authorization_code", refresh=self.issues_refresh)

    def _by_refresh(self, form: Mapping[str, str], client_id: str) -> tuple[int, Json]:
        token = form.get("refresh_token", "")
        for one in self._families:
            if token in one.used:
                one.is_revoked = True  # it was stolen, or its answer was lost
        family = next((one for one in self._families if token and one.refresh == token), None)
        if family is None or family.is_revoked or family.client_id not in (client_id, *self.redirect_uris):
            return 400, {"error": "invalid_grant", "error_description": "token is not active"}
        return self._granted(family, "refresh_token", refresh=self.rotates)

    def _granted(self, family: Family, grant_type: str, *, refresh: bool) -> tuple[int, Json]:
        self._number[grant_type] += 1
        if family not in self._families:
            self._families.append(family)
        access = f"access-{secrets.token_urlsafe(24)}"
        lifetime = self.lifetime if self.lifetime is not None else 3600
        self._access[access] = (family, time.time() + lifetime)
        answer: Json = {"access_token": access, "token_type": "Bearer", "scope": family.scope}
        if self.lifetime is not None:
            answer["expires_in"] = self.lifetime
        if refresh:
            family.used.add(family.refresh)
            family.refresh = answer["refresh_token"] = f"refresh-{secrets.token_urlsafe(24)}"
            family.used.discard("")
        return 200, answer

    def register(self, about: Json) -> tuple[int, Json]:
        client_id = f"client-{secrets.token_hex(6)}"
        secret = "" if about.get("token_endpoint_auth_method") == "none" else f"secret-{secrets.token_hex(12)}"
        self.clients[client_id] = secret
        self.redirect_uris[client_id] = about["redirect_uris"]
        self._number["registration"] += 1
        answer = {**about, "client_id": client_id}
        return 201, answer | ({"client_secret": secret, "client_secret_expires_at": 0} if secret else {})

    def revoke(self, form: Mapping[str, str]) -> tuple[int, Json]:
        token = form.get("token", "")
        self.revoked.append(token)
        with self._lock:
            for family in self._families:
                if token and token == family.refresh:
                    family.is_revoked = True
            self._access.pop(token, None)
        return 200, {}


class _Handler(BaseHTTPRequestHandler):
    @property
    def oauth(self) -> OAuthServer:
        server: Any = self.server
        oauth: OAuthServer = server.oauth
        return oauth

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        self.oauth.requests.append((parts.path, dict(self.headers)))
        if self._fails(parts.path):
            return
        document = self.oauth.documents().get(parts.path)
        if document is not None:
            self._answer(200, document)
        elif parts.path == "/authorize":
            try:
                location = self.oauth.authorize(dict(parse_qsl(parts.query)))
            except (ValueError, KeyError) as error:
                self._answer(400, {"error": str(error)})
            else:
                self._answer(302, {}, {"Location": location})
        else:
            self._answer(404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = urlsplit(self.path).path
        if path == "/register":
            self.oauth.requests.append((path, dict(self.headers)))
            if not self._fails(path):
                self._answer(*self.oauth.register(json.loads(body)))
            return
        form = dict(parse_qsl(body.decode()))
        self.oauth.requests.append((path, {**dict(self.headers), **form}))
        if self._fails(path, form):
            return
        self._answer(*self._posted(path, form))

    def _posted(self, path: str, form: dict[str, str]) -> tuple[int, Json]:
        client_id, secret = form.get("client_id", ""), form.get("client_secret", "")
        if (header := self.headers.get("authorization", "")).startswith("Basic "):
            pair = base64.b64decode(header.removeprefix("Basic ")).decode()
            client_id, secret = map(unquote, pair.split(":", 1))
        if path == "/token":
            return self.oauth.token(form, client_id, secret)
        return self.oauth.revoke(form) if path == "/revoke" else (404, {})

    def _fails(self, path: str, form: dict[str, str] | None = None) -> bool:
        fault = self.oauth.faults.get(path)
        if fault is None or fault.times <= 0:
            return False
        fault.times -= 1
        time.sleep(fault.delay)
        if fault.lost:
            self._posted(path, form or {})
            fault.done.set()
            time.sleep(fault.holds)
            self.close_connection = True
            return True
        if not fault.status:
            return False
        body = fault.body if isinstance(fault.body, bytes) else json.dumps(fault.body).encode()
        self._answer(fault.status, body, fault.headers)
        return True

    def _answer(self, status: int, body: Json | bytes, headers: Mapping[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Not on stderr."""


class _Http(ThreadingHTTPServer):
    # So that its end waits for all threads.
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, oauth: OAuthServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.oauth = oauth


@contextlib.contextmanager
def running() -> Iterator[OAuthServer]:
    """A server on loopback."""
    server = OAuthServer()
    http = _Http(server)
    server.issuer = f"http://127.0.0.1:{http.server_address[1]}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, name="oauth-server")
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join(10)
        http.server_close()
