"""A certificate authority of a test's own, and certificates that it signs for loopback."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Files in PEM: the authority, a server's and a client's pair, and another authority that signed nothing here."""

    authority: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    stranger: Path


def make(folder: Path, *, expired: bool = False) -> Certificates:
    """Make them in ``folder``, readable by all, as a server may run as another user. ``expired``: the server's has."""
    authority_key, stranger_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _authority("authority", authority_key)
    files = {"authority": authority.public_bytes(serialization.Encoding.PEM)}
    files["stranger"] = _authority("stranger", stranger_key).public_bytes(serialization.Encoding.PEM)
    for name in ("server", "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        ends = datetime.timedelta(hours=-1) if expired and name == "server" else datetime.timedelta(days=2)
        unsigned = _unsigned(name, authority.subject, key.public_key(), ends)
        signed = unsigned.add_extension(addresses, critical=False)
        files[name] = signed.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        files[f"{name}-key"] = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    for name, content in files.items():
        (folder / f"{name}.pem").write_bytes(content)
    return Certificates(
        **{name.replace("-", "_"): folder / f"{name}.pem" for name in files}  # the fields have the files' names
    )


def _authority(name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    itself = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = _unsigned(name, itself, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())


def _unsigned(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, ends: datetime.timedelta = datetime.timedelta(days=2)
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + ends)
    )
