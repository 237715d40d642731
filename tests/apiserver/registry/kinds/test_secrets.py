"""Validation of TLS key pairs and Docker configurations in secrets."""

import datetime
import math
from dataclasses import replace
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from sampan.apiserver.registry.kinds.secrets import _find_json_object_error, find_key_pair_error
from sampan.machinery.pki.pem import read_blocks

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


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("header", [b"PRIVATE KEY", b"RSA PRIVATE KEY", b"EC PRIVATE KEY"])
@pytest.mark.parametrize("kind", ["rsa", "ec"])
def test_encoding_of_a_key_does_not_depend_on_its_header(form: PrivateFormat, header: bytes, kind: str) -> None:
    key = _rsa() if kind == "rsa" else ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(Encoding.PEM, form, NoEncryption())
    for written in (b"RSA PRIVATE KEY", b"EC PRIVATE KEY", b"PRIVATE KEY"):
        if b"-BEGIN " + written + b"-" in text:
            text = text.replace(written, header)
            break
    assert find_key_pair_error(_certificate(key), text) == ""


def test_certificate_with_the_serial_number_zero_is_accepted() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    der = _certificate(key)
    block = next(read_blocks(der))
    serial = block.content.index(b"\x02\x01\x01\x30") + 2
    changed = replace(block, content=block.content[:serial] + b"\x00" + block.content[serial + 1 :])
    assert find_key_pair_error(changed.encode(), _pem(key)) == ""


@pytest.mark.parametrize(
    ("size", "part"), [(0, "certificate"), (3, "certificate"), (20, "certificate")], ids=["empty", "head", "start"]
)
def test_truncated_certificate_is_malformed(size: int, part: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    block = next(read_blocks(_certificate(key)))
    broken = replace(block, content=block.content[:size] or b"\x00")
    assert find_key_pair_error(broken.encode(), _pem(key)) == f"x509: malformed {part}"


def test_key_of_an_exchange_is_no_tls_key() -> None:
    key = x25519.X25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    expected = "tls: found unknown private key type in PKCS#8 wrapping"
    assert find_key_pair_error(_certificate(_rsa()), text) == expected


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
