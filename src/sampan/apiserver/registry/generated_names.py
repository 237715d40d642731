"""Names made from metadata.generateName."""

import random

_CHANCE = random.Random()
"""Of its own: the one that all share is for tests to seed."""

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_LONGEST = 63
ATTEMPTS = 8
"""How many names are tried before the server gives up."""


def generated_name(base: str) -> str:
    return base[: _LONGEST - _SUFFIX] + "".join(_CHANCE.choices(_ALPHABET, k=_SUFFIX))
