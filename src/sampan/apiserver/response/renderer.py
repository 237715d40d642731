"""Responses as bytes, in the form that was negotiated.

The common case is a pass-through: an object or list in the storage version is sent as the bytes of the watch cache.
Every other form (another version, metadata only, a table, YAML, protobuf, pretty-printed JSON) is derived from those
bytes here, in steps that are short enough not to delay other requests. Responses of 128 KiB and more are compressed
with gzip at level 1, as in kube-apiserver, if the client accepts it.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial as bound
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api import limits
from sampan.api.codec import json as json_codec
from sampan.api.resources.resource import Resource
from sampan.api.unstructured import Unstructured
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.request import negotiation
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.negotiation import DEFAULT_FORMAT, JSON, PROTOBUF, TABLE, YAML, OutputFormat
from sampan.apiserver.response import json_bytes, watch_frames
from sampan.apiserver.response.responses import ListResponse, ObjectResponse, RawResponse, ValueResponse, WatchResponse
from sampan.apiserver.tables.columns import GENERIC, SCALE
from sampan.apiserver.tables.table_writer import TableWriter, include_of
from sampan.machinery import errors
from sampan.storage.cacher import CacheItem, ListResult

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import ApiEndpoints

_ROWS_AT_A_TIME = 50
_CAUSES_AT_A_TIME, _CHARACTERS_AT_A_TIME = 1000, 64 << 10
_PROTOBUF_CACHE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class RenderedResponse:
    code: int
    content_type: str
    chunks: Iterable[bytes]
    """The body in chunks; usually there is one."""
    headers: dict[str, str] = field(default_factory=dict)
    is_gzipped: bool = False
    """Whether the chunks are to be compressed with gzip as they are sent."""


class Renderer:
    def __init__(self, *, endpoints: ApiEndpoints) -> None:
        self._registry, self._versions = endpoints.registry, endpoints.versions
        self._protobuf = ProtobufBodies(_PROTOBUF_CACHE_BYTES)

    async def render(
        self,
        response: ObjectResponse | ListResponse | ValueResponse | RawResponse,
        output_format: OutputFormat,
        call: Call,
    ) -> RenderedResponse:
        if isinstance(response, ObjectResponse):
            rendered = await self._object(response, output_format, call)
        elif isinstance(response, ListResponse):
            rendered = await self._list(response, output_format, call)
        elif isinstance(response, RawResponse):
            return RenderedResponse(response.code, response.content_type, (response.body,), response.headers)
        else:
            raw = json_codec.encode(response.value)
            output_format = _fall_back_to_json(raw, output_format)
            rendered = RenderedResponse(
                response.code, output_format.media, (await encode_body(raw, output_format, call),), response.headers
            )
        return _compress(rendered, call)

    async def error(self, error: errors.ApiError, call: Call) -> RenderedResponse:
        """Render an error as a Status, in a form that the client accepts or else in JSON."""
        output_format = negotiation.form_of_error(call.headers.get("Accept", ""))
        body = await encode_body(await _encode_status(error.status), output_format, call)
        headers = {"Retry-After": str(wait)} if (wait := error.retry_after_s) else {}
        return RenderedResponse(error.code, output_format.media, (body,), headers)

    def frames(self, response: WatchResponse, call: Call) -> watch_frames.WatchFrames:
        """Return the encoder for the events of a watch."""
        return watch_frames.frames(self, call, response.resource)

    # -- one object --------------------------------------------------------------------------------------------------

    async def _object(self, response: ObjectResponse, output_format: OutputFormat, call: Call) -> RenderedResponse:
        raw = response.raw
        if output_format.as_kind == TABLE:
            raw = self._table_of_object(response, output_format, call)
        elif output_format.as_kind:
            json_bytes.check_partial_kind(output_format, response.resource, is_list=False)
            raw = json_bytes.partial_object(raw, output_format)
        return RenderedResponse(response.code, output_format.media, (await encode_body(raw, output_format, call),))

    def _table_of_object(self, response: ObjectResponse, output_format: OutputFormat, call: Call) -> bytes:
        resource, title = response.resource, _decode_title(response.raw)
        if title.kind == resource.kind:
            writer = self.table_writer(resource, output_format, include_of(call))
            obj = response.obj if response.obj is not None else self._decode(response)
        else:  # a subresource of its own kind: a scale, an eviction
            columns = SCALE if title.kind == "Scale" else GENERIC
            writer = self.table_writer(resource, output_format, include_of(call), columns=columns)
            obj = Unstructured.from_value(json_codec.read_any(response.raw))
        version = title.metadata.resourceVersion
        return writer.table({"resourceVersion": version} if version else {}, [writer.row(obj, lambda: response.raw)])

    def _decode(self, response: ObjectResponse) -> Any:
        """Return the object in the storage version, for which the table columns are declared."""
        resource = response.resource
        if response.item is not None:
            return self._registry.open_store(resource).cacher.object(response.item)
        shown = self._registry.codec(resource.gvk, resource).decode(response.raw)
        return self._versions.to_storage_version(resource, shown)

    # -- lists -------------------------------------------------------------------------------------------------------

    async def _list(self, response: ListResponse, output_format: OutputFormat, call: Call) -> RenderedResponse:
        resource, result = response.resource, response.result
        if output_format.as_kind == TABLE:
            raw = await self._table_of_list(response, output_format, call)
            return RenderedResponse(200, output_format.media, (await encode_body(raw, output_format, call),))
        if output_format.as_kind:
            json_bytes.check_partial_kind(output_format, resource, is_list=True)
            chunks = json_bytes.partial_list(result, output_format)
        elif output_format.media == PROTOBUF:
            return RenderedResponse(200, PROTOBUF, (await self._protobuf_list(resource, result),))
        elif output_format.media == JSON and is_pretty(call, output_format):
            head, items = (
                json_bytes.list_head(resource, result),
                json_bytes.list_items(resource, result, self._versions),
            )
            return RenderedResponse(200, JSON, pretty_list(head, items))
        else:
            chunks = json_bytes.list_chunks(resource, result, self._versions)
        if output_format.media == JSON and not is_pretty(call, output_format):
            return RenderedResponse(200, JSON, json_bytes.append_newline(chunks))
        return RenderedResponse(200, output_format.media, (await encode_body(b"".join(chunks), output_format, call),))

    async def _table_of_list(self, response: ListResponse, output_format: OutputFormat, call: Call) -> bytes:
        resource, result = response.resource, response.result
        strategy = self._registry.behavior(resource).strategy
        list_columns = strategy.list_columns(self.decode_item(resource, item) for item in result.items)
        writer = self.table_writer(resource, output_format, include_of(call), list_columns=list_columns)
        cacher, rows = self._registry.open_store(resource).cacher, []
        for number, item in enumerate(self._sort_for_table(resource, result.items), 1):
            rows.append(writer.row(cacher.object(item), bound(self.to_requested_bytes, resource, item)))
            if number % _ROWS_AT_A_TIME == 0:
                await asyncio.sleep(0)
        metadata = json_bytes.list_metadata(result)
        if not rows and self._is_generic(resource):
            return writer.encode_head(metadata) + b"null}"
        return writer.table(metadata, rows)

    def _sort_for_table(self, resource: Resource, items: list[CacheItem]) -> list[CacheItem]:
        order = self._registry.behavior(resource).strategy.table_order
        ranked = [(order(self.decode_item(resource, item)), item) for item in items[:1]]
        if not ranked or ranked[0][0] is None:
            return items
        return sorted(items, key=lambda item: order(self.decode_item(resource, item)))

    async def _protobuf_list(self, resource: Resource, result: ListResult) -> bytes:
        from sampan.api.codec import protobuf

        bodies = []
        for number, item in enumerate(result.items, 1):
            bodies.append(self._protobuf.get(resource, item, self.to_requested_bytes))
            if number % _ROWS_AT_A_TIME == 0:
                await asyncio.sleep(0)
        kind = result.shape.list_kind or f"{resource.kind}List"
        return protobuf.join_list(resource.gvk.api_version, kind, json_bytes.list_metadata(result), bodies)

    # -- shared with watch frames ------------------------------------------------------------------------------------

    def table_writer(
        self,
        resource: Resource,
        output_format: OutputFormat,
        include: str,
        columns: Sequence[Column] = (),
        list_columns: Sequence[Column] = (),
    ) -> TableWriter:
        strategy = self._registry.behavior(resource).strategy
        return TableWriter(
            columns=columns or strategy.columns,
            list_columns=list_columns,
            conditions=strategy.row_conditions,
            kind=resource.storage or resource.gvk,
            output_format=output_format,
            include=include,
            now=self._registry.clock.now(),
        )

    def to_requested_bytes(self, resource: Resource, item: CacheItem) -> bytes:
        """Return the JSON of a cached item in the requested version."""
        return self._versions.to_requested_bytes(resource, item.raw)

    def decode_item(self, resource: Resource, item: CacheItem) -> Any:
        """Return the decoded object of a cached item."""
        return self._registry.open_store(resource).cacher.object(item)

    def _is_generic(self, resource: Resource) -> bool:
        return resource.is_custom or not self._registry.behavior(resource).strategy.columns


class _ResourceVersion(msgspec.Struct, gc=False, frozen=True):
    resourceVersion: str = ""


class _ObjectHead(msgspec.Struct, gc=False):
    kind: str = ""
    metadata: _ResourceVersion = _ResourceVersion()


_decode_title = msgspec.json.Decoder(_ObjectHead).decode


async def _encode_status(status: dict[str, Any]) -> bytes:
    """Encode a Status as JSON. A large one, for an object with very many or very long errors, is encoded in a thread,
    in pieces that do not hold the interpreter lock for long."""
    causes = (status.get("details") or {}).get("causes") or ()
    if len(causes) <= _CAUSES_AT_A_TIME and len(status["message"]) <= _CHARACTERS_AT_A_TIME:
        return json_codec.encode(status)
    return await asyncio.to_thread(_encode_large_status, status, causes)


def _encode_large_status(status: dict[str, Any], causes: Sequence[Mapping[str, str]]) -> bytes:
    details = {**status["details"], "causes": []} if causes else status.get("details")
    body = json_codec.encode({**status, "message": "", "details": details})
    # Within a JSON string the quotes of these two would be escaped.
    body = body.replace(b'"message":""', b'"message":%b' % _encode_long_text(status["message"]), 1)
    return body.replace(b'"causes":[]', b'"causes":[%b]' % b",".join(map(_encode_cause, causes)), 1)


def _encode_cause(cause: Mapping[str, str]) -> bytes:
    if len(cause["message"]) <= _CHARACTERS_AT_A_TIME:
        return json_codec.encode(cause)
    short = json_codec.encode({**cause, "message": ""})
    return short.replace(b'"message":""', b'"message":%b' % _encode_long_text(cause["message"]), 1)


def _encode_long_text(text: str) -> bytes:
    starts = range(0, len(text), _CHARACTERS_AT_A_TIME)
    return b'"%b"' % b"".join(json_codec.encode(text[start : start + _CHARACTERS_AT_A_TIME])[1:-1] for start in starts)


def _fall_back_to_json(raw: bytes, output_format: OutputFormat) -> OutputFormat:
    """Fall back to JSON for values that have no protobuf message."""
    if output_format.media != PROTOBUF:
        return output_format
    from sampan.api.codec import protobuf

    return output_format if protobuf.supports(*json_codec.read_kind(raw)) else DEFAULT_FORMAT


def _compress(rendered: RenderedResponse, call: Call) -> RenderedResponse:
    """Compress a large response with gzip if the client accepts it."""
    chunks = rendered.chunks
    if isinstance(chunks, tuple) and len(chunks[0]) <= GZIP_THRESHOLD:
        return rendered
    if not wants_gzip(call.headers.get("Accept-Encoding", "")):
        return rendered
    pieces = iter(chunks)
    first = next(pieces)
    if len(first) <= GZIP_THRESHOLD:
        return RenderedResponse(rendered.code, rendered.content_type, _chain(first, pieces), rendered.headers)
    headers = {**rendered.headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return RenderedResponse(rendered.code, rendered.content_type, _chain(first, pieces), headers, is_gzipped=True)


def _chain(first: bytes, remainder: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from remainder


class ProtobufBodies:
    """A least-recently-used cache of messages without envelopes, of at most `most` bytes."""

    def __init__(self, maximum: int) -> None:
        self._maximum, self._size = maximum, 0
        self._kept: dict[tuple[str, str, int], bytes] = {}

    def get(self, resource: Resource, item: CacheItem, shown: Callable[[Resource, CacheItem], bytes]) -> bytes:
        from sampan.api.codec import protobuf

        key = (resource.gvk.api_version, item.key, item.revision)
        body = self._kept.pop(key, None)
        if body is None:
            value = protobuf.read_json(shown(resource, item))
            body = protobuf.encode_body(resource.gvk.api_version, resource.kind, value)
            self._size += len(body)
            while self._size > self._maximum and self._kept:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
        self._kept[key] = body
        return body


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


async def encode_body(raw: bytes, output_format: OutputFormat, call: Call) -> bytes:
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

    return protobuf_codec.encode(protobuf_codec.read_json(raw))


GZIP_THRESHOLD = 128 << 10
_LEVEL = 1
_GZIP = 16 + zlib.MAX_WBITS


def wants_gzip(accept_encoding: str) -> bool:
    return any(part.strip() == "gzip" for part in accept_encoding.split(","))


async def gzip_chunks(chunks: Iterable[bytes]) -> AsyncIterator[bytes]:
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
