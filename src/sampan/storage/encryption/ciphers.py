"""The ciphers of an EncryptionConfiguration, each with one key."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher as RawCipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7

from sampan.machinery.extras import require


class CannotDecrypt(Exception):
    """The data were not encrypted with this key for this object; the message never contains them."""


class Cipher(Protocol):
    def seal(self, data: bytes, place: bytes) -> bytes:
        """Encrypt the data; `place` is the key of the object, to which AES-GCM binds the data."""

    def open(self, data: bytes, place: bytes) -> bytes:
        """Decrypt the data; raise `CannotDecrypt`."""


class AesGcm:
    _NONCE = 12

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, data: bytes, place: bytes) -> bytes:
        nonce = os.urandom(self._NONCE)
        return nonce + self._cipher.encrypt(nonce, data, place)

    def open(self, data: bytes, place: bytes) -> bytes:
        try:
            return self._cipher.decrypt(data[: self._NONCE], data[self._NONCE :], place)
        except (InvalidTag, ValueError):
            raise CannotDecrypt("its authentication failed") from None


class AesCbc:
    """AES-CBC, which is not authenticated: data of another key are usually, but not always, detected."""

    _BLOCK = 16

    def __init__(self, key: bytes) -> None:
        self._algorithm = AES(key)

    def seal(self, data: bytes, place: bytes) -> bytes:
        start = os.urandom(self._BLOCK)
        padder = PKCS7(8 * self._BLOCK).padder()
        encryptor = RawCipher(self._algorithm, CBC(start)).encryptor()
        return start + encryptor.update(padder.update(data) + padder.finalize()) + encryptor.finalize()

    def open(self, data: bytes, place: bytes) -> bytes:
        try:
            decryptor = RawCipher(self._algorithm, CBC(data[: self._BLOCK])).decryptor()
            padded = decryptor.update(data[self._BLOCK :]) + decryptor.finalize()
            unpadder = PKCS7(8 * self._BLOCK).unpadder()
            return unpadder.update(padded) + unpadder.finalize()
        except ValueError:
            raise CannotDecrypt("its padding is wrong") from None


class SecretBox:
    """XSalsa20-Poly1305 of libsodium; the library is imported with the first key, because few configurations use it."""

    def __init__(self, key: bytes) -> None:
        require("nacl")
        from nacl import exceptions, secret

        self._box, self._error = secret.SecretBox(key), exceptions.CryptoError

    def seal(self, data: bytes, place: bytes) -> bytes:
        return bytes(self._box.encrypt(data))

    def open(self, data: bytes, place: bytes) -> bytes:
        if len(data) < self._box.NONCE_SIZE + self._box.MACBYTES:
            raise CannotDecrypt("it is too short")
        try:
            return bytes(self._box.decrypt(data))
        except self._error:
            raise CannotDecrypt("its authentication failed") from None


_AES_SIZES = (16, 24, 32)
CIPHERS: Mapping[str, tuple[Callable[[bytes], Cipher], tuple[int, ...]]] = {
    "aesgcm": (AesGcm, _AES_SIZES),
    "aescbc": (AesCbc, _AES_SIZES),
    "secretbox": (SecretBox, (32,)),
}
"""For each provider, the class of its cipher and the valid key sizes in bytes."""
