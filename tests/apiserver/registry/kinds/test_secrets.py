"""Validation of TLS key pairs and Docker configurations in secrets."""

import datetime
import math
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from sampan.apiserver.registry.kinds.secrets import _find_json_object_error, find_key_pair_error

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def _certificate(key: Key) -> bytes:
    """Return a certificate of the public half of the key, signed with another key."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + datetime.timedelta(days=1))
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)


def _pem(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def test_a_docker_configuration_that_is_not_utf8_is_read_as_go_reads_it() -> None:
    assert _find_json_object_error(b'{"auths": {"a": {"auth": "\xca\xff"}}}') == ""
    assert _find_json_object_error(b'{"auths": "\xca\xff') != ""


def test_private_key_must_match_certificate() -> None:
    first, other, rsa_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1()), _rsa()
    certificate = _certificate(first)
    assert find_key_pair_error(certificate, _pem(first)) == ""
    assert find_key_pair_error(certificate, _pem(other)) == "tls: private key does not match public key"
    assert find_key_pair_error(certificate, _pem(rsa_key)) == "tls: private key type does not match public key type"


@cache
def _rsa() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def test_invalid_certificate_or_key_is_reported() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate, pem = _certificate(key), _pem(key)
    assert find_key_pair_error(b"x", b"") == "tls: failed to find any PEM data in certificate input"
    assert find_key_pair_error(pem, certificate).endswith("PEM inputs may have been switched")
    assert find_key_pair_error(certificate, b"") == "tls: failed to find any PEM data in key input"
    expected = "tls: found a certificate rather than a key in the PEM for the private key"
    assert find_key_pair_error(certificate, certificate) == expected
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert find_key_pair_error(broken, pem) == "x509: malformed certificate"
    assert (
        find_key_pair_error(certificate, broken.replace(b"CERTIFICATE", b"PRIVATE KEY"))
        == "tls: failed to parse private key"
    )


def test_rsa_key_is_compared_without_primality_check() -> None:
    """A check of the primes blocks the event loop for 0.29 s with a key of 4096 bits, and longer with larger keys. A
    key one of whose factors is composite fails that check."""
    key = _with_composite_factor(_rsa())
    text = _pem(key)
    with pytest.raises(ValueError, match="Invalid private key"):
        load_pem_private_key(text, password=None)
    assert find_key_pair_error(_certificate(key), text) == ""


def _with_composite_factor(key: rsa.RSAPrivateKey) -> rsa.RSAPrivateKey:
    """Return a key whose first factor is composite, and that is consistent otherwise."""
    old, exponent = key.private_numbers(), 65537
    p, q = old.p - old.p % 6 + 3, old.q  # an odd multiple of three
    while math.gcd(exponent, p - 1) != 1 or math.gcd(p, q) != 1:
        p += 6
    d = pow(exponent, -1, math.lcm(p - 1, q - 1))
    public = rsa.RSAPublicNumbers(exponent, p * q)
    numbers = rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public)
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)
