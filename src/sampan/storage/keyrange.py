"""The keys that start with a prefix, as a half-open range in byte order.

Python compares strings by code point, which is the byte order of their UTF-8 encoding, so that ranges can be computed
on strings.
"""

_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def prefix_end(prefix: str) -> str | None:
    """Return the smallest string after every string that starts with `prefix`, or None if there is none."""
    kept = prefix.rstrip(chr(_LAST))
    if not kept:
        return None
    after = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if after in _SURROGATES else after)
