"""The ciphers: there and back, damage found, and secretbox as NaCl makes it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.storage.encryption.ciphers import CIPHERS, CannotDecrypt, SecretBox
from sampan.storage.encryption.salsa20 import xsalsa20

# What libsodium's crypto_secretbox gives for b"sampan " * 20, with these key and nonce.
_KEY, _NONCE = bytes(range(32)), bytes(range(24))
_BOX = bytes.fromhex(
    "70ff184198c91a7292bace9c0358c2b42d9e553fa6a48263da51ff5f06af39f63fd527b1ac565e8267c309b426a6cc91e2b5d5a624dd8563"
    "d7ad93f81716ca2d033209f283f6b26fcf7e4acd7b0fb786bded8f786b36ba8c7982e0bfea00e9ef86b2bcdbe17f4388f856be79435697cf"
    "ef7a77e732f233060f19b022e89e312850ad4fedb34cbe1afcaf6ae013e927daf6b96c821be8b2d250faecfa"
)


def test_secretbox_is_that_of_nacl() -> None:
    assert SecretBox(_KEY).open(_NONCE + _BOX, b"") == b"sampan " * 20


def test_stream_is_one_however_long() -> None:
    whole = xsalsa20(_KEY, _NONCE, 64 * 600)
    assert all(xsalsa20(_KEY, _NONCE, size) == whole[:size] for size in (0, 1, 63, 64, 65, 64 * 256, 64 * 257 + 3))


@pytest.mark.parametrize("provider", CIPHERS)
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=3000))
def test_there_and_back(provider: str, data: bytes) -> None:
    make, sizes = CIPHERS[provider]
    for size in sizes:
        cipher = make(b"k" * size)
        assert cipher.open(cipher.seal(data, b"/a"), b"/a") == data


@pytest.mark.parametrize("provider", ["aesgcm", "secretbox"])
@pytest.mark.parametrize("at", [0, 25, -1])
def test_damage_is_found(provider: str, at: int) -> None:
    cipher = CIPHERS[provider][0](b"k" * 32)
    sealed = bytearray(cipher.seal(b"some value", b"/a"))
    sealed[at] ^= 1
    with pytest.raises(CannotDecrypt):
        cipher.open(bytes(sealed), b"/a")


@pytest.mark.parametrize("provider", CIPHERS)
@pytest.mark.parametrize("size", [0, 5, 16, 20])
def test_too_short(provider: str, size: int) -> None:
    with pytest.raises(CannotDecrypt):
        CIPHERS[provider][0](b"k" * 32).open(b"x" * size, b"/a")


def test_no_two_are_the_same() -> None:
    for make, _ in CIPHERS.values():
        cipher = make(b"k" * 32)
        assert cipher.seal(b"value", b"/a") != cipher.seal(b"value", b"/a")
