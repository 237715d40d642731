"""Which keys begin with a prefix, as a half-open range in byte order.

Python compares strings by code point, which is the byte order of their UTF-8 form, so ranges may be taken over strings.
"""

_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def prefix_end(prefix: str) -> str | None:
    """The smallest string after every string that begins with `prefix`; None if there is no such string."""
    kept = prefix.rstrip(chr(_LAST))
    if not kept:
        return None
    after = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if after in _SURROGATES else after)
