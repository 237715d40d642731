"""Whether two values are the same to those who read them."""

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode


def is_same(new: object, old: object) -> bool:
    """To Python 1 and true are equal; in values of any form, such as a driver's parameters, they are not the same. The
    order of keys does not matter."""
    return new == old and (isinstance(new, str) or _encode(new) == _encode(old))


__all__ = ["is_same"]
