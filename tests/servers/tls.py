"""A certificate authority of our own and one certificate for 127.0.0.1, as PEM files."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

VALID_DAYS = 2


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """Files for servers and clients; one certificate serves both sides."""

    ca: Path
    cert: Path
    key: Path
    keystore: Path
    """Key and certificate in one file, as Kafka wants them."""


def make_certificates(directory: Path) -> Certificates:
    """Write a fresh authority and a certificate for 127.0.0.1 and localhost."""
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name, name = _name("tardis-machine test authority"), _name("localhost")
    ca = _certificate(ca_name, ca_name, ca_key, ca_key, is_authority=True)
    cert = _certificate(name, ca_name, key, ca_key, is_authority=False)
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    cert_pem = cert.public_bytes(serialization.Encoding.PEM)
    ca_pem = ca.public_bytes(serialization.Encoding.PEM)
    return Certificates(
        ca=_write(directory / "ca.pem", ca_pem),
        cert=_write(directory / "cert.pem", cert_pem),
        key=_write(directory / "key.pem", key_pem),
        keystore=_write(directory / "keystore.pem", key_pem + cert_pem + ca_pem),
    )


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    is_authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), loopback])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
