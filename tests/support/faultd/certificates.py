"""Certificates as they should not be, made anew for every run."""

from __future__ import annotations

import ssl
import tempfile
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


class Authority:
    """Signs certificates. `unknown` ones are signed by another authority of the same name."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _certificate("faultd authority", self._key, self._key, authority=True)
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def server(self, kind: str) -> ssl.SSLContext:
        """A server's context with a certificate that is `good`, or wrong in the way that `kind` says."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        begin = now + DAY if kind == "not-yet-valid" else now - 10 * DAY
        end = now - DAY if kind == "expired" else now + 10 * DAY
        signer = {"self-signed": key, "unknown": ec.generate_private_key(ec.SECP256R1())}.get(kind, self._key)
        host = "elsewhere.test" if kind == "wrong-host" else "localhost"
        made = _certificate(host, key, signer, begin=begin, end=end)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory) / "server.pem"
            private = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
            context.load_cert_chain(file)
        if kind == "old-tls":
            context.set_ciphers("ALL:@SECLEVEL=0")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of TLS 1.1, for which we want it
                context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        return context


def _certificate(
    host: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    authority: bool = False,
    begin: datetime | None = None,
    end: datetime | None = None,
) -> x509.Certificate:
    now = datetime.now(UTC)
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    issuer = own if signer is key else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "faultd authority")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(own)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin or now - DAY)
        .not_valid_after(end or now + 10 * DAY)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if authority:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    else:
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    return builder.sign(signer, hashes.SHA256())
