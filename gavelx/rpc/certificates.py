"""A development CA: certificates for the service and its agents, good enough for a laboratory.

The CA's key is in the same folder; with it, anyone can make a certificate for any name. If your site has a CA of
its own, use that.
"""

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gavelx.errors import InputFileError, OptionError

CA, SERVER = "ca", "server"
Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


def make_certificates(
    folder: str | Path, hosts: Sequence[str], agents: Sequence[str], days: float = 365.0
) -> dict[str, Pair]:
    """Make certificates: ``ca``, ``server`` for these hosts, and one for each agent; existing files stay.

    Returns all of them by name. Raises :class:`OptionError` if the folder cannot be written.
    """
    place = Path(folder)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        pairs = {CA: _pair(place, CA)}
        ca = _load(pairs[CA]) if pairs[CA].certificate.exists() else _make_ca(pairs[CA], days * 5)
        wanted = {SERVER: tuple(hosts)} | {name: (name,) for name in agents}
        for name, names in wanted.items():
            pairs[name] = _pair(place, name)
            if not pairs[name].certificate.exists():
                _make(pairs[name], name, names, ca, days)
    except OSError as error:
        raise OptionError(
            f"cannot be written ({error.strerror})", where=str(folder), expected="a folder"
        ) from None
    return pairs


def _pair(place: Path, name: str) -> Pair:
    return Pair(place / f"{name}.pem", place / f"{name}.key")


def _make_ca(pair: Pair, days: float) -> tuple[x509.Certificate, Key]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("gavelx development CA")
    builder = _builder(name, name, key, days).add_extension(x509.BasicConstraints(True, 0), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    _write(pair, certificate, key)
    return certificate, key


def _make(pair: Pair, name: str, hosts: Sequence[str], ca: tuple[x509.Certificate, Key], days: float) -> None:
    certificate, ca_key = ca
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = _builder(_name(name), certificate.subject, key, days)
    builder = builder.add_extension(names, critical=False).add_extension(uses, critical=False)
    _write(pair, builder.sign(ca_key, hashes.SHA256()), key)


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, days: float) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(pair: Pair, certificate: x509.Certificate, key: Key) -> None:
    """Write the key, readable only by its owner, and then the certificate, which so never lacks a key."""
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pair.key.unlink(missing_ok=True)
    with os.fdopen(os.open(pair.key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text)
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _load(pair: Pair) -> tuple[x509.Certificate, Key]:
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
    except (OSError, ValueError, AssertionError) as error:
        problem = f"cannot be read as a CA and its key ({type(error).__name__})"
        raise InputFileError(problem, where=str(pair.certificate), hint="another folder") from None
    return certificate, key
