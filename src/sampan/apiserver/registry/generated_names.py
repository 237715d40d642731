"""Names generated from metadata.generateName."""

import random

_CHANCE = random.Random()
"""A private generator: tests seed the shared one of the `random` module."""

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_LONGEST = 63
ATTEMPTS = 8
"""How many names are tried before creation fails with AlreadyExists."""


def generated_name(base: str) -> str:
    return base[: _LONGEST - _SUFFIX] + "".join(_CHANCE.choices(_ALPHABET, k=_SUFFIX))
