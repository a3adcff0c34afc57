"""Passkeys (WebAuthn): made, used. `fido2` reads and verifies them; the rows are those of allauth.

The pages keep the challenge in the session; its use is recorded in the row, as for codes.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal.auth import WebAuthn
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare, salted_hmac
from fido2.server import Fido2Server
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import (
    AttestationConveyancePreference,
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from toolhub.second_factor import factors
from tools_app import governance
from tools_app.access import actions
from tools_app.governance.actors import changing
from tools_app.sdk.errors import ConflictError, ValidationError

log = logging.getLogger(__name__)

MOST: Final = 10
MOST_CHARACTERS: Final = 16_384
NAME_CHARACTERS: Final = 60
# ES256, EdDSA, RS256, by their numbers in COSE.
ALGORITHMS: Final = (-7, -8, -257)
# Until then a browser asks for the passkey.
_MILLISECONDS: Final = 120_000
_PREFERRED: Final = UserVerificationRequirement.PREFERRED
_HOST: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*")


@dataclass(frozen=True, slots=True)
class Site:
    """The address of this hub, as browsers name it. A passkey belongs to its host."""

    origin: str
    host: str

    @property
    def is_fit(self) -> bool:
        """Whether browsers offer passkeys there."""
        if not _HOST.fullmatch(self.host):
            return False
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            is_local = self.host == "localhost" or self.host.endswith(".localhost")
            return self.origin.startswith("https://") or is_local
        return False


class _NotFittingError(Exception):
    """Why an answer does not fit; for the log."""


def site_of(request: HttpRequest) -> Site:
    """TOOLHUB_PUBLIC_URL, or else the address of the request, whose host Django has checked."""
    url = urlsplit(governance.public_url() or f"{request.scheme}://{request.get_host()}")
    host, default = url.hostname or "", {"http": 80, "https": 443}.get(url.scheme)
    shown = f"[{host}]" if ":" in host else host
    port = "" if url.port in (None, default) else f":{url.port}"
    return Site(f"{url.scheme}://{shown}{port}", host)


def of(user: Any) -> list[Authenticator]:
    return list(Authenticator.objects.filter(user=user, type=factors.PASSKEY).order_by("pk"))


# ---- making one


def creation(user: Any, site: Site) -> tuple[str, str]:
    """What a browser is asked to make, as JSON, and the challenge in it."""
    # Says nothing about the person, and differs between hubs at one host.
    handle = salted_hmac(__name__, str(user.pk), algorithm="sha256").digest()
    options, state = _server(site).register_begin(
        PublicKeyCredentialUserEntity(id=handle, name=user.get_username(), display_name=user.get_username()),
        credentials=[_credential(row) for row in of(user)],
        resident_key_requirement=ResidentKeyRequirement.DISCOURAGED,
        user_verification=_PREFERRED,
    )
    return json.dumps(dict(options)["publicKey"]), str(state["challenge"])


def add(user: Any, name: str, site: Site, challenge: str, answer: str) -> list[str]:
    """Store a passkey. Returns the recovery codes if it is the first second factor of this user.

    Raises:
        ValidationError: the answer does not fit, or the name is empty or too long.
        ConflictError: the passkey or its name is stored already, or there are too many.
    """
    name = checked_name(name)
    try:
        credential, stored, counter = _made(site, challenge, answer)
    except _NotFittingError as error:
        log.warning("the new passkey of %s was refused: %s", user.get_username(), error)
        raise ValidationError(
            "This passkey does not fit", next_step="Make it again, on a page of this hub that you have just opened."
        ) from None
    identifier = websafe_encode(credential.credential_id)
    with changing(actions.USER_FACTOR_ADD, factors.of_oneself(user)) as change:
        factors.lock(user)
        check_room(user, name)
        if Authenticator.objects.filter(type=factors.PASSKEY, data__id=identifier).exists():
            raise ConflictError("This passkey is stored already")
        row = WebAuthn.add(user, name, stored).instance
        row.data |= {"id": identifier, "host": site.host, "counter": counter, "challenge": challenge}
        row.save()
        codes = factors.first_codes(user)
        change.note(factors.of_oneself(user).name, {"factor": [None, factors.described(row)]})
    return codes


def checked_name(name: str) -> str:
    """Raises: ValidationError."""
    name = " ".join(name.split())
    if not name or len(name) > NAME_CHARACTERS or not name.isprintable():
        raise ValidationError(
            f"The name of a passkey has 1 to {NAME_CHARACTERS} characters",
            next_step="Enter the name of the device or password manager that keeps it.",
        )
    return name


def check_room(user: Any, name: str) -> None:
    """Raises: ConflictError: no further passkey can be stored with this name."""
    rows = of(user)
    if len(rows) >= MOST:
        raise ConflictError(
            f"You have {MOST} passkeys, which is the limit", next_step="Remove one that you do not use."
        )
    if any(row.data["name"] == name for row in rows):
        raise ConflictError("You have a passkey with this name", next_step="Enter another name.")


def _made(site: Site, challenge: str, answer: str) -> tuple[AttestedCredentialData, dict[str, Any], int]:
    """The credential, what is stored of it, and its counter.

    Raises: _NotFittingError.
    """
    try:
        stored = _read(answer, "clientDataJSON", "attestationObject")
        response = RegistrationResponse.from_dict(stored)
        made = _server(site).register_complete(_state(challenge), response)
        credential = made.credential_data
        _check_client(response.response.client_data.cross_origin)
    except _NotFittingError:
        raise
    except Exception as error:  # fido2 names no errors for what is no WebAuthn, CBOR or key
        raise _NotFittingError(_reason(error)) from None
    if credential is None or credential.credential_id != response.raw_id or len(response.raw_id) > 1023:
        raise _NotFittingError("the credential has another id")
    if credential.public_key.get(3) not in ALGORITHMS:
        raise _NotFittingError("the hub did not ask for this algorithm")
    return credential, stored, made.counter


# ---- using one


def question(user: Any, site: Site) -> tuple[str, str] | None:
    """What a browser is asked to sign, as JSON, and the challenge in it. None: no passkey belongs to this host."""
    rows = [row for row in of(user) if row.data["host"] == site.host]
    if not rows or not site.is_fit:
        return None
    options, state = _server(site).authenticate_begin([_credential(row) for row in rows], user_verification=_PREFERRED)
    return json.dumps(dict(options)["publicKey"]), str(state["challenge"])


def verify(user: Any, site: Site, challenge: str, answer: str) -> str:
    """`webauthn` if a passkey of this user has signed the challenge, else nothing.

    Raises:
        RateLimitError: too many wrong codes and passkeys.
    """

    def use(rows: list[Authenticator]) -> Authenticator | None:
        try:
            return _used(rows, site, challenge, answer)
        except _NotFittingError as error:
            log.warning("the passkey of %s was refused: %s", user.get_username(), error)
            return None

    return factors.attempt(user, use)


def _used(rows: Iterable[Authenticator], site: Site, challenge: str, answer: str) -> Authenticator:
    """Raises: _NotFittingError."""
    own = {row.data["id"]: row for row in rows if row.type == factors.PASSKEY and row.data["host"] == site.host}
    try:
        response = AuthenticationResponse.from_dict(
            _read(answer, "clientDataJSON", "authenticatorData", "signature"),
        )
        credentials = [_credential(row) for row in own.values()]
        credential = _server(site).authenticate_complete(_state(challenge), credentials, response)
        _check_client(response.response.client_data.cross_origin)
        counter = int(response.response.authenticator_data.counter)
        row = own[websafe_encode(credential.credential_id)]
    except _NotFittingError:
        raise
    except Exception as error:  # fido2 names no errors for what is no WebAuthn, CBOR or key
        raise _NotFittingError(_reason(error)) from None
    if constant_time_compare(row.data["challenge"], challenge):
        raise _NotFittingError("its answer was used already")
    # Passkeys without a counter always say 0.
    if (counter or row.data["counter"]) and counter <= row.data["counter"]:
        raise _NotFittingError(f"its counter went from {row.data['counter']} to {counter}: there may be a copy of it")
    row.data |= {"counter": counter, "challenge": challenge}
    return row


# ---- both


def _server(site: Site) -> Fido2Server:
    server = Fido2Server(
        PublicKeyCredentialRpEntity(id=site.host, name=factors.hub_name()),
        attestation=AttestationConveyancePreference.NONE,
        # fido2 would accept other ports and subdomains.
        verify_origin=lambda origin: site.is_fit and origin == site.origin,
    )
    server.timeout = _MILLISECONDS  # type: ignore[assignment]  # fido2 has it as None
    server.allowed_algorithms = [one for one in server.allowed_algorithms if one.alg in ALGORITHMS]
    return server


def _state(challenge: str) -> dict[str, Any]:
    # An empty challenge would be that of a browser which was asked nothing.
    if len(websafe_decode(challenge)) < 16:
        raise _NotFittingError("nothing was asked")
    return {"challenge": challenge, "user_verification": _PREFERRED}


def _read(answer: str, *names: str) -> dict[str, Any]:
    """Those parts of an answer that are used, in the form that allauth stores."""
    if len(answer) > MOST_CHARACTERS:
        raise _NotFittingError("it is too long")
    given = json.loads(answer)
    response = {name: given["response"][name] for name in names}
    if not all(isinstance(part, str) for part in (given["id"], *response.values())):
        raise _NotFittingError("its parts are no text")
    return {"id": given["id"], "rawId": given["id"], "type": "public-key", "response": response}


def _check_client(cross_origin: Any) -> None:
    if cross_origin:
        raise _NotFittingError("it was asked for by a frame of another site")


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def _credential(row: Authenticator) -> AttestedCredentialData:
    credential: AttestedCredentialData = WebAuthn(row).authenticator_data.credential_data
    return credential
