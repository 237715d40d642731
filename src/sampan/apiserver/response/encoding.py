"""Encoding of JSON responses in other media types, pretty-printing and compression.

Responses of 128 KiB and more are compressed with gzip at level 1, as in kube-apiserver, if the client accepts it.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import msgspec

from sampan.api import limits
from sampan.api.codec import json as json_codec
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.negotiation import JSON, YAML, OutputFormat

_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_LARGE = 64 << 10
_INDENT = b"\n    "
"""The indentation of a list's items, which are two levels deep."""


def is_pretty(call: Call, output_format: OutputFormat) -> bool:
    """Whether to pretty-print: if requested, or by default for curl, Wget and browsers."""
    if output_format.is_pretty:
        return True
    if call.query and (wish := call.query.get("pretty")):
        return wish in _TRUE
    return call.user_agent.startswith(_PRETTY_AGENTS)


def pretty(raw: bytes) -> bytes:
    return msgspec.json.format(raw, indent=2)


def pretty_list(head: bytes, items: Iterable[bytes], size: int = 256 << 10) -> Iterator[bytes]:
    """Pretty-print a list chunk by chunk. `head` is the list up to and including the bracket before its items."""
    pending = [pretty(head + b"]}")[: -len(b"]\n}")]]
    separator, length = b"", 0
    for item in items:
        shown = pretty(item).replace(b"\n", _INDENT)
        pending += (separator, _INDENT, shown)
        separator = b","
        length += len(shown)
        if length >= size:
            yield b"".join(pending)
            pending.clear()
            length = 0
    pending.append(b"\n  ]\n}" if separator else b"]\n}")
    yield b"".join(pending)


async def encode(raw: bytes, output_format: OutputFormat, call: Call) -> bytes:
    """Encode JSON bytes in the media type of the form. Large responses are encoded in a thread to keep the event loop
    free."""
    if output_format.media == JSON:
        return pretty(raw) if is_pretty(call, output_format) else raw + b"\n"
    write = _yaml if output_format.media == YAML else _protobuf
    return await asyncio.to_thread(write, raw) if len(raw) > _LARGE else write(raw)


def _yaml(raw: bytes) -> bytes:
    from sampan.api.codec import yaml as yaml_codec

    return yaml_codec.encode(json_codec.read_any(raw))


def _protobuf(raw: bytes) -> bytes:
    from sampan.api.codec import protobuf as protobuf_codec

    value: dict[str, Any] = json_codec.read_any(raw)
    return protobuf_codec.encode(value)


GZIP_THRESHOLD = 128 << 10
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
