"""Secrets that somebody who may create Ingresses chooses: every client makes the server use them."""

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


def large_key() -> bytes:
    """A certificate whose key has 8,192 bits; nobody has its private key, which takes minutes to generate."""
    return certificate_for(rsa.RSAPublicNumbers(65537, (1 << 8191) | 1).public_key())


@pytest.mark.parametrize(
    ("certificate", "key", "message"),
    [
        pytest.param(large_key(), PAIR.key, "8192 bits", id="a key that takes long to sign with"),
        pytest.param(large_key() + PAIR.certificate, PAIR.key, "8192 bits", id="such a key before a small one"),
        pytest.param(PAIR.certificate * 500, PAIR.key, "more than 65536 bytes", id="a chain of hundreds of KB"),
        pytest.param(PAIR.certificate, PAIR.key * 500, "more than 65536 bytes", id="a key of hundreds of KB"),
        pytest.param(b"-----BEGIN CERTIFICATE-----\n!\n", PAIR.key, "cannot be read", id="no certificate"),
    ],
)
def test_make_every_handshake_expensive(certificate: bytes, key: bytes, message: str) -> None:
    with pytest.raises(UnusableSecret, match=message):
        certificates_of(certificate, key).context_of(SECRET)


def test_a_chain_and_an_rsa_key_are_served() -> None:
    assert certificates_of(PAIR.certificate + CA.certificate, PAIR.key).context_of(SECRET)
    private = rsa.generate_private_key(65537, 2048)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    start = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, private.public_key(), 1, start, start + timedelta(days=1))
    certificate = builder.sign(private, hashes.SHA256()).public_bytes(Encoding.PEM)
    assert certificates_of(certificate, pem).context_of(SECRET)
