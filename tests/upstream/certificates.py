"""Certificates made for one test run: a root of our own, and leaves that are valid or wrong in one way each."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


class Authority:
    """A root certificate in a file, and what it signs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test root")])
        now = datetime.datetime.now(datetime.UTC)
        root = (
            _builder(self._name, self._name, self._key.public_key(), now - DAY, now + DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .add_extension(_root_usage(), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = directory / "root.pem"
        self.file.write_bytes(root.public_bytes(serialization.Encoding.PEM))

    def server(self, *, address: str = "127.0.0.1", expired: bool = False) -> ssl.SSLContext:
        """Return a server's context with a leaf for one address."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.leaf(address=address, expired=expired))
        return context

    def leaf(self, *, address: str = "127.0.0.1", expired: bool = False) -> Path:
        """Return a file with the certificate for one address, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        end = now - DAY if expired else now + DAY
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "leaf")])
        leaf = (
            _builder(name, self._name, key.public_key(), now - 3 * DAY, end)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        file = self.directory / f"leaf-{address}-{expired}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + leaf.public_bytes(serialization.Encoding.PEM)
        )
        return file


def _root_usage() -> x509.KeyUsage:
    flags = ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"]
    flags += ["encipher_only", "decipher_only"]
    return x509.KeyUsage(key_cert_sign=True, crl_sign=True, **dict.fromkeys(flags, False))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    start: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )
