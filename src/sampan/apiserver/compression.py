"""gzip for large answers, as the real server does it: level 1, from 128 KiB on, where the client says `gzip`."""

import zlib
from collections.abc import Iterable, Iterator

THRESHOLD = 128 << 10
_LEVEL = 1
_GZIP = 16 + zlib.MAX_WBITS


def wants_gzip(accept_encoding: str) -> bool:
    return any(part.strip() == "gzip" for part in accept_encoding.split(","))


def gzipped(chunks: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    for chunk in chunks:
        if packed := packer.compress(chunk):
            yield packed
    yield packer.flush()


__all__ = ["THRESHOLD", "gzipped", "wants_gzip"]
