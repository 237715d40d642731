"""The public key is read out of certificates, and the malformed part of others is named."""

import pytest

from sampan.machinery.pki.certificate_parts import MalformedCertificateError, public_key_info

_INFO = b"\x30\x02\x05\x00"


def _element(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes((size,)) if size < 0x80 else bytes((0x82, size >> 8, size & 0xFF))
    return bytes((tag,)) + length + content


def _certificate(*parts: bytes) -> bytes:
    return _element(0x30, _element(0x30, b"".join(parts)))


_VERSION, _SERIAL, _EMPTY = _element(0xA0, b"\x02\x01\x02"), _element(0x02, b"\x00"), _element(0x30, b"")


def test_key_follows_the_subject() -> None:
    assert public_key_info(_certificate(_VERSION, _SERIAL, *[_EMPTY] * 4, _INFO)) == _INFO
    assert public_key_info(_certificate(_SERIAL, *[_EMPTY] * 4, _INFO, _EMPTY)) == _INFO


def test_long_parts_are_skipped() -> None:
    assert public_key_info(_certificate(_SERIAL, _EMPTY, _element(0x30, bytes(300)), _EMPTY, _EMPTY, _INFO)) == _INFO


@pytest.mark.parametrize(
    ("der", "part"),
    [
        (b"", "certificate"),
        (b"\x30\x80\x00\x00", "certificate"),
        (b"\x30\x85\x01\x01\x01\x01\x01", "certificate"),
        (b"\x30\x84\xff\xff\xff\xff", "certificate"),
        (_element(0x30, b""), "tbs certificate"),
        (_certificate(b"\xa0\x05\x00"), "version"),
        (_certificate(_EMPTY), "serial number"),
        (_certificate(_SERIAL), "signature algorithm identifier"),
        (_certificate(_SERIAL, _EMPTY), "issuer"),
        (_certificate(_SERIAL, _EMPTY, _EMPTY), "validity"),
        (_certificate(_SERIAL, *[_EMPTY] * 4), "spki"),
    ],
)
def test_malformed_part_is_named(der: bytes, part: str) -> None:
    with pytest.raises(MalformedCertificateError, match=part):
        public_key_info(der)
