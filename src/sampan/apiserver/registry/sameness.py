"""Equality of two values as JSON."""

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode


def is_same(new: object, old: object) -> bool:
    """Whether two values are the same JSON, ignoring the order of keys.

    Unlike `==`, which finds 1 equal to true; the difference matters in free-form values such as the parameters of a
    driver.
    """
    return new == old and (isinstance(new, str) or _encode(new) == _encode(old))
