"""A certificate authority, and the certificates of a server and a client, created in memory."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_NOW = datetime.datetime.now(datetime.UTC)


def make() -> tuple[bytes, bytes, bytes, bytes]:
    """Return, as PEM, the CA, the server certificate with its key, the client certificate, and the client key."""
    authority = ec.generate_private_key(ec.SECP256R1())
    ca = _sign(authority, "ca", authority, is_ca=True)
    names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("kubernetes")]
    server_key, client_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    server = _sign(server_key, "server", authority, names=names)
    client = _sign(client_key, "tester", authority)
    return ca, server + _key(server_key), client, _key(client_key)


def _sign(
    key: ec.EllipticCurvePrivateKey,
    name: str,
    authority: ec.EllipticCurvePrivateKey,
    *,
    is_ca: bool = False,
    names: list[x509.GeneralName] | None = None,
) -> bytes:
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOW - datetime.timedelta(hours=1))
        .not_valid_after(_NOW + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
