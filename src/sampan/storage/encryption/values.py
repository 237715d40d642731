"""One value's way in and out: which key writes, and which keys read.

A stored value says how it was written: `k8s:enc:PROVIDER:v1:KEY:` and the cipher's data. One without such a beginning
is plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sampan.storage.encryption.ciphers import CannotDecrypt, Cipher

ENCRYPTED = b"k8s:enc:"


@dataclass(frozen=True, slots=True)
class Key:
    """A named key of a provider; None for a cipher: values stay plain (the provider `identity`)."""

    prefix: bytes
    cipher: Cipher | None


IDENTITY = Key(b"", None)


def key(provider: str, name: str, cipher: Cipher) -> Key:
    return Key(b"%b%b:v1:%b:" % (ENCRYPTED, provider.encode(), name.encode()), cipher)


class Values:
    """The first key writes; all read."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self.replace(keys)

    def replace(self, keys: Sequence[Key]) -> None:
        self.keys = tuple(keys)
        self._first = self.keys[0]

    def seal(self, place: str, value: bytes) -> bytes:
        cipher = self._first.cipher
        return value if cipher is None else self._first.prefix + cipher.seal(value, place.encode())

    def open(self, place: str, value: bytes) -> bytes:
        """The plain value; one that no key can read stays as it is, for the reader to see what it is."""
        return self._opened(place, value)[0]

    def is_stale(self, place: str, value: bytes) -> bool:
        """Whether it was written in another way than it would be now."""
        return self._opened(place, value)[1] is not self._first

    def _opened(self, place: str, value: bytes) -> tuple[bytes, Key | None]:
        is_plain = not value.startswith(ENCRYPTED)
        for each in self.keys:
            if each.cipher is None:
                if is_plain:
                    return value, each
            elif value.startswith(each.prefix):
                try:
                    return each.cipher.open(value[len(each.prefix) :], place.encode()), each
                except CannotDecrypt:
                    continue
        return value, None


__all__ = ["ENCRYPTED", "IDENTITY", "Key", "Values", "key"]
