"""The public key inside of a certificate, read without judging the rest of it.

The `cryptography` library refuses, or will refuse, certificates that Kubernetes accepts, such as those with the serial
number 0.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_SEQUENCE, _INTEGER, _VERSION = 0x30, 0x02, 0xA0
_PARTS: Final = (
    ("serial number", _INTEGER),
    ("signature algorithm identifier", _SEQUENCE),
    ("issuer", _SEQUENCE),
    ("validity", _SEQUENCE),
    ("issuer", _SEQUENCE),
)
"""What precedes the public key, by the names that Go's errors use (the second issuer is the subject), with its tag."""
_MAX_LENGTH_BYTES = 4


class MalformedCertificateError(ValueError):
    """The text is the part of the certificate that is malformed."""


class _Element(NamedTuple):
    """A DER element: where it, its content and the next one start."""

    start: int
    content: int
    end: int


def public_key_info(der: bytes) -> bytes:
    """Return the SubjectPublicKeyInfo of a certificate. Raise MalformedCertificateError."""
    certificate = _read(der, 0, len(der), _SEQUENCE, "certificate")
    body = _read(der, certificate.content, certificate.end, _SEQUENCE, "tbs certificate")
    position = body.content
    if der[position : position + 1] == bytes((_VERSION,)):
        position = _read(der, position, body.end, _VERSION, "version").end
    for name, tag in _PARTS:
        position = _read(der, position, body.end, tag, name).end
    info = _read(der, position, body.end, _SEQUENCE, "spki")
    return der[info.start : info.end]


def _read(der: bytes, start: int, limit: int, tag: int, name: str) -> _Element:
    if start + 2 > limit or der[start] != tag:
        raise MalformedCertificateError(name)
    size, content = der[start + 1], start + 2
    if size >= 0x80:
        count = size - 0x80
        content += count
        if not 0 < count <= _MAX_LENGTH_BYTES or content > limit:
            raise MalformedCertificateError(name)
        size = int.from_bytes(der[start + 2 : content])
    if content + size > limit:
        raise MalformedCertificateError(name)
    return _Element(start, content, content + size)
