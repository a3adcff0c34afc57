"""The OpenID Connect provider: allauth's classes, with the HTTP client and the checks of this hub.

allauth (65) keeps the state of a sign-in, makes the PKCE pair and builds the redirect. It sends no nonce, verifies no
signature of an ID token from the token endpoint, does not compare issuers, and takes parameters of the redirect from
the request: all of that is done here instead.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import jwt
from allauth.socialaccount.internal import statekit
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Client
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import cached_property

from toolhub.sso.failures import (
    ClockError,
    MisconfiguredError,
    RefusedError,
    SignInError,
    StaleError,
    UnreachableError,
    UntrustedError,
)
from tools_app.access import issuer
from tools_app.base.setting_table import SECURE_ADDRESS
from tools_app.governance.sign_ins import public_url
from tools_app.http import plain
from tools_app.sdk.variables import InvalidError
from tools_app.upstream.oauth import protocol
from tools_app.upstream.oauth.protocol import BASIC, POST, OAuthError, Server

T = TypeVar("T")

CALLBACK: Final = "sso_callback"
SCOPES: Final = ("openid", "profile", "email")
# Requested where the provider names it; others refuse a scope that they do not know.
GROUPS_SCOPE: Final = "groups"
MOST_CODE: Final = 4_000
MOST_TOKEN: Final = 64 * 1024
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_REQUIRED: Final = ("iss", "sub", "aud", "exp", "iat")


def host() -> str:
    """What the provider is called on pages."""
    return urlsplit(settings.TOOLHUB_SSO_ISSUER).netloc


class Client(OAuth2Client):  # type: ignore[misc]  # allauth has no types
    def get_redirect_url(self, authorization_url: str, scope: list[str], extra_params: dict[str, Any]) -> str:
        address = super().get_redirect_url(authorization_url, scope, extra_params)
        before, _, query = address.rpartition("?")
        # An endpoint may have a query of its own, as those of Azure B2C do.
        return f"{before}&{query}" if "?" in before else address


class Adapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]  # allauth has no types
    """The endpoints of the provider."""

    client_class = Client

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        super().__init__(provider.request, provider.sub_id)

    def get_provider(self) -> Provider:
        return self._provider

    @cached_property
    def openid_config(self) -> dict[str, Any]:
        """Raises: SignInError."""
        url = self._provider.server_url
        document = _answered(protocol.fetched(url, "the metadata of the provider", internal=True))
        if document is None:
            raise MisconfiguredError(f"there are no metadata at {url}; is TOOLHUB_SSO_ISSUER right?")
        # Otherwise one issuer could refer to the keys and endpoints of another.
        if document.get("issuer") != settings.TOOLHUB_SSO_ISSUER:
            raise MisconfiguredError(f"the metadata at {url} are of {document.get('issuer')!r:.200}")
        for name in _ENDPOINTS:
            _check_address(name, document.get(name))
        if document.get("userinfo_endpoint"):
            _check_address("userinfo_endpoint", document["userinfo_endpoint"])
        return document

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        path = reverse(CALLBACK)
        return f"{base}{path}" if (base := public_url()) else str(request.build_absolute_uri(path))


class Provider(OpenIDConnectProvider):  # type: ignore[misc]  # allauth has no types
    """The provider of the settings, for one request."""

    oauth2_adapter_class = Adapter

    def __init__(self, request: HttpRequest) -> None:
        own = settings.TOOLHUB_SSO_ISSUER
        app = SocialApp(
            provider=self.id,
            # With `sub`, this is the key of a person: the same `sub` of another issuer is another person.
            provider_id=own,
            name=host(),
            client_id=settings.TOOLHUB_SSO_CLIENT_ID,
            secret=settings.TOOLHUB_SSO_CLIENT_SECRET,
            settings={"server_url": own.rstrip("/"), "oauth_pkce_enabled": True},
        )
        super().__init__(request, app=app)

    def get_oauth2_adapter(self, request: HttpRequest) -> Adapter:
        return self._adapter

    @cached_property
    def _adapter(self) -> Adapter:
        return self.oauth2_adapter_class(self)

    def begin(self, next_url: str) -> str:
        """The address for the browser. Nothing of it is taken from the request.

        Raises:
            SignInError
        """
        supported = protocol.texts_of(self._adapter.openid_config, "scopes_supported")
        scopes = [*SCOPES, *([GROUPS_SCOPE] if GROUPS_SCOPE in supported else [])]
        nonce = secrets.token_urlsafe(32)
        response = self.redirect(
            self.request,
            AuthProcess.LOGIN,
            next_url,
            scope=scopes,
            auth_params={"nonce": nonce},
            nonce=nonce,
        )
        return str(response["Location"])

    def finish(self, parameters: Mapping[str, str]) -> tuple[dict[str, Any], str]:
        """The verified claims of the person who comes back from the provider, and where they wanted to go.

        Raises:
            SignInError
        """
        # Before anything else: it ends with this answer, whatever that says.
        state = statekit.unstash_state(
            self.request, provider_id=self.sub_id, state_id=parameters.get("state", "")[:MOST_CODE]
        )
        if state is None:
            raise StaleError("there is no such sign-in in this session")
        self._check_issuer(parameters)
        if error := parameters.get("error", ""):
            raise RefusedError(f"the provider answered {error!r:.100}")
        code = parameters.get("code", "")
        if not code or len(code) > MOST_CODE:
            raise UntrustedError("the provider answered without a code")
        answer = self._exchanged(code, state["pkce_code_verifier"])
        claims = self._verified(answer.get("id_token"), state["nonce"])
        return self._completed(claims, answer.get("access_token")), state.get("next") or ""

    def _check_issuer(self, parameters: Mapping[str, str]) -> None:
        """RFC 9207: the answer is of the provider that was asked."""
        named = parameters.get("iss")
        must = self._adapter.openid_config.get("authorization_response_iss_parameter_supported") is True
        if (named is None and must) or (named is not None and named != settings.TOOLHUB_SSO_ISSUER):
            raise UntrustedError(f"the answer is of the issuer {named!r:.200}")

    def _exchanged(self, code: str, verifier: str) -> dict[str, Any]:
        endpoint = self._adapter.access_token_url
        method = BASIC if self._adapter.basic_auth else POST
        server = Server(token_endpoint=endpoint, client_id=self.app.client_id, auth_method=method)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "code_verifier": verifier,
            "redirect_uri": self._adapter.get_callback_url(self.request, self.app),
        }
        response = _answered(protocol.posted(server, endpoint, form, self.app.secret, internal=True))
        answer = protocol.read_object(response)
        if response.status != 200 or answer is None:
            # A code that was used, or that another client got, is refused here.
            raise _refusal(protocol.refusal(response, answer, protocol.place(endpoint)))
        return answer

    def _verified(self, token: object, nonce: str) -> dict[str, Any]:
        if not isinstance(token, str) or len(token) > MOST_TOKEN:
            raise UntrustedError("there is no ID token in the answer")
        try:
            header = jwt.get_unverified_header(token)
            algorithm = str(header.get("alg"))
            # First of all: the token must not choose how it is verified.
            if algorithm not in issuer.ALGORITHMS or "crit" in header:
                raise UntrustedError(f"the ID token is signed with {algorithm!r:.40}")
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key(algorithm, header.get("kid")),
                algorithms=[algorithm],
                audience=self.app.client_id,
                issuer=settings.TOOLHUB_SSO_ISSUER,
                leeway=issuer.LEEWAY_SECONDS,
                options={"require": list(_REQUIRED)},
            )
        except (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError) as error:
            raise ClockError(f"the ID token: {error}") from error
        except jwt.PyJWTError as error:
            raise UntrustedError(f"the ID token: {error}") from error
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise UntrustedError("the ID token has the nonce of another sign-in")
        parties = [claims["azp"]] if "azp" in claims else claims["aud"]
        if parties not in (self.app.client_id, [self.app.client_id]):
            raise UntrustedError("the ID token is for another client, too")
        return claims

    def _key(self, algorithm: str, key_id: object) -> jwt.PyJWK:
        url = self._adapter.openid_config["jwks_uri"]
        keys = issuer.usable_keys(_answered(protocol.fetched(url, "the keys of the provider", internal=True)))
        if key_id is None:
            fitting = [key for key in keys.values() if key.algorithm_name == algorithm]
            key = fitting[0] if len(fitting) == 1 else None
        else:
            key = keys.get(str(key_id))
        if key is None or key.algorithm_name != algorithm:
            raise UntrustedError("the ID token is signed with an unknown key")
        return key

    def _completed(self, claims: dict[str, Any], access_token: object) -> dict[str, Any]:
        """The claims, with those that the provider has at its userinfo endpoint only. Signed ones win."""
        url = self._adapter.openid_config.get("userinfo_endpoint")
        if settings.TOOLHUB_SSO_GROUPS_CLAIM in claims or not url or not isinstance(access_token, str):
            return claims
        response = _answered(_userinfo(url, access_token))
        more = protocol.read_object(response)
        if response.status != 200 or more is None:
            raise MisconfiguredError(f"the userinfo endpoint answers with HTTP {response.status}")
        if more.get("sub") != claims["sub"]:
            raise UntrustedError("the userinfo are of another person")
        return {**more, **claims}


async def _userinfo(url: str, access_token: str) -> plain.PlainResponse:
    if not access_token.isascii() or not access_token.isprintable():
        raise OAuthError("the access token cannot be sent")
    try:
        return await plain.send("GET", url, internal=True, headers={"authorization": f"Bearer {access_token}"})
    except plain.PlainError as error:
        raise OAuthError(f"{protocol.place(url)}: {error}") from None


def _answered(request: Coroutine[Any, Any, T]) -> T:
    """Raises: SignInError."""
    try:
        return asyncio.run(request)
    except OAuthError as error:
        raise UnreachableError(str(error)) from error


def _refusal(error: OAuthError) -> SignInError:
    if not isinstance(error, protocol.RefusedError):
        return UnreachableError(str(error))
    return StaleError(str(error)) if error.code == protocol.INVALID_GRANT else MisconfiguredError(str(error))


def _check_address(name: str, url: object) -> None:
    """Raises: MisconfiguredError: codes and secrets would be sent over a connection that others can read."""
    try:
        SECURE_ADDRESS(url if isinstance(url, str) else "")
    except InvalidError:
        raise MisconfiguredError(f"the metadata have no {name} that begins with https://") from None
