"""gzip compression of large responses as in kube-apiserver: level 1, from 128 KiB on, if the client accepts gzip."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterable

from sampan.api import limits

THRESHOLD = 128 << 10
_LEVEL = 1
_GZIP = 16 + zlib.MAX_WBITS


def wants_gzip(accept_encoding: str) -> bool:
    return any(part.strip() == "gzip" for part in accept_encoding.split(","))


async def gzipped(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Compress a body chunk by chunk. Large chunks are compressed in a thread: zlib releases the interpreter lock, and
    compression took 40% of the event loop's time while serving lists."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    for chunk in chunks:
        if len(chunk) <= limits.INLINE_GZIP_BYTES:
            packed = packer.compress(chunk)
        else:
            packed = await asyncio.to_thread(packer.compress, chunk)
        if packed:
            yield packed
    yield packer.flush()
