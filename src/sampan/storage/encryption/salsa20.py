"""The XSalsa20 key stream, which NaCl's secretbox is made with and the cryptography library does not have.

All blocks of a stream are computed at once: each of the 16 words of the state is one integer with a lane of 64 bits per
block, of which the lower 32 are the word and the upper ones take the carry.
"""

from __future__ import annotations

import struct

_SIGMA = struct.unpack("<4I", b"expand 32-byte k")
_LANE = 8
_CHUNK = 256
"""Blocks computed together."""
_QUARTERS = (
    (0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11),
    (0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14),
)  # fmt: skip
_STEPS = tuple(
    (to, one, other, 32 - left)
    for a, b, c, d in _QUARTERS
    for to, one, other, left in ((b, a, d, 7), (c, b, a, 9), (d, c, b, 13), (a, d, c, 18))
)
"""Of a double round: word `to` ^= (word `one` + word `other`) rotated, by so many bits to the right."""


def xsalsa20(key: bytes, nonce: bytes, size: int) -> bytes:
    """The first `size` bytes of the stream for a key of 32 bytes and a nonce of 24."""
    inner = _hsalsa20(key, nonce[:16])
    blocks = -(-size // 64)
    parts = [_blocks(inner, nonce[16:], first, min(_CHUNK, blocks - first)) for first in range(0, blocks, _CHUNK)]
    return b"".join(parts)[:size]


def _hsalsa20(key: bytes, nonce: bytes) -> bytes:
    words = _mixed(_state(key, list(struct.unpack("<4I", nonce))), 0xFFFFFFFF)
    return struct.pack("<8I", *(words[at] for at in (0, 5, 10, 15, 6, 7, 8, 9)))


def _state(key: bytes, middle: list[int]) -> list[int]:
    k = struct.unpack("<8I", key)
    s = _SIGMA
    return [s[0], *k[:4], s[1], *middle, s[2], *k[4:], s[3]]


def _mixed(words: list[int], mask: int) -> list[int]:
    words = list(words)
    for _ in range(10):
        for to, one, other, right in _STEPS:
            total = (words[one] + words[other]) & mask
            words[to] ^= ((total << (32 - right)) & mask) | ((total >> right) & mask)
    return words


def _blocks(key: bytes, nonce: bytes, first: int, count: int) -> bytes:
    ones = int.from_bytes(b"\1\0\0\0\0\0\0\0" * count, "little")
    mask = ones * 0xFFFFFFFF
    numbers = range(first, first + count)
    low = int.from_bytes(b"".join((n & 0xFFFFFFFF).to_bytes(_LANE, "little") for n in numbers), "little")
    high = int.from_bytes(b"".join((n >> 32).to_bytes(_LANE, "little") for n in numbers), "little")
    n0, n1 = struct.unpack("<2I", nonce)
    start = [word * ones for word in _state(key, [n0, n1, 0, 0])]
    start[8], start[9] = low, high
    lanes = [
        memoryview(((end + begin) & mask).to_bytes(_LANE * count, "little"))
        for end, begin in zip(_mixed(start, mask), start, strict=True)
    ]
    return b"".join(bytes(lane[block * _LANE : block * _LANE + 4]) for block in range(count) for lane in lanes)


__all__ = ["xsalsa20"]
