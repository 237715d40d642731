"""Encryption and decryption of single values: which key writes, and which keys read.

An encrypted value has the prefix `k8s:enc:PROVIDER:v1:KEY:` before the data of the cipher. A value without it is plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sampan.storage.encryption.ciphers import CannotDecrypt, Cipher

ENCRYPTED = b"k8s:enc:"


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    """A named key of a provider; without a cipher, values stay plain (the provider `identity`)."""

    prefix: bytes
    cipher: Cipher | None


IDENTITY = EncryptionKey(b"", None)


def key(provider: str, name: str, cipher: Cipher) -> EncryptionKey:
    return EncryptionKey(b"%b%b:v1:%b:" % (ENCRYPTED, provider.encode(), name.encode()), cipher)


class Values:
    """Transforms values: the first key encrypts, and all keys can decrypt."""

    def __init__(self, keys: Sequence[EncryptionKey]) -> None:
        self.replace(keys)

    def replace(self, keys: Sequence[EncryptionKey]) -> None:
        self.keys = tuple(keys)
        self._first = self.keys[0]

    def seal(self, place: str, value: bytes) -> bytes:
        cipher = self._first.cipher
        return value if cipher is None else self._first.prefix + cipher.seal(value, place.encode())

    def open(self, place: str, value: bytes) -> bytes:
        """Return the plain value; a value that no key can decrypt is returned unchanged, so that the reader can report
        it.
        """
        return self._opened(place, value)[0]

    def is_stale(self, place: str, value: bytes) -> bool:
        """Whether the value was not written with the key that would be used now."""
        return self._opened(place, value)[1] is not self._first

    def _opened(self, place: str, value: bytes) -> tuple[bytes, EncryptionKey | None]:
        is_plain = not value.startswith(ENCRYPTED)
        for cipher_key in self.keys:
            if cipher_key.cipher is None:
                if is_plain:
                    return value, cipher_key
            elif value.startswith(cipher_key.prefix):
                try:
                    return cipher_key.cipher.open(value[len(cipher_key.prefix) :], place.encode()), cipher_key
                except CannotDecrypt:
                    continue
        return value, None
