"""TLS secrets are chosen by users who create Ingresses, and are used in every handshake of a client."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from sampan.api.types.core_v1 import Secret
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.pki.certificates import SigningRequest, issue, make_ca
from sampan.network.ingress.certificates import HostCertificates, UnusableSecret

SECRET = NamespacedName("default", "tls")
NOW = time.time()
CA = make_ca("ca", now=NOW)
PAIR = issue(CA, SigningRequest(common_name="a", dns_names=["a"], is_server=True), now=NOW)


def certificate_for(public_key: rsa.RSAPublicKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    start = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, public_key, 1, start, start + timedelta(days=1))
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)


def certificates_of(certificate: bytes, key: bytes) -> HostCertificates:
    data = {"tls.crt": certificate, "tls.key": key}
    secret = Secret(metadata=ObjectMeta(name=SECRET.name, namespace=SECRET.namespace), data=data)
    return HostCertificates(secret_of=lambda host: SECRET, read_secret={key_of(secret): secret}.get, now=NOW)


def certificate_with_large_key() -> bytes:
    """Return a certificate for an 8,192-bit key, without its private key, which would take minutes to generate."""
    return certificate_for(rsa.RSAPublicNumbers(65537, (1 << 8191) | 1).public_key())


@pytest.mark.parametrize(
    ("certificate", "key", "message"),
    [
        pytest.param(certificate_with_large_key(), PAIR.key, "8192 bits", id="8192-bit key"),
        pytest.param(
            certificate_with_large_key() + PAIR.certificate, PAIR.key, "8192 bits", id="8192-bit key before a small key"
        ),
        pytest.param(PAIR.certificate * 500, PAIR.key, "more than 65536 bytes", id="large chain"),
        pytest.param(PAIR.certificate, PAIR.key * 500, "more than 65536 bytes", id="large key"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\n!\n", PAIR.key, "cannot be read", id="invalid PEM"),
    ],
)
def test_expensive_or_invalid_secrets_are_unusable(certificate: bytes, key: bytes, message: str) -> None:
    with pytest.raises(UnusableSecret, match=message):
        certificates_of(certificate, key).context_of(SECRET)


def test_certificate_chain_and_rsa_key_are_accepted() -> None:
    assert certificates_of(PAIR.certificate + CA.certificate, PAIR.key).context_of(SECRET)
    private = rsa.generate_private_key(65537, 2048)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    start = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, private.public_key(), 1, start, start + timedelta(days=1))
    certificate = builder.sign(private, hashes.SHA256()).public_bytes(Encoding.PEM)
    assert certificates_of(certificate, pem).context_of(SECRET)
