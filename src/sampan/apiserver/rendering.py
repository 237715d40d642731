"""Answers as bytes, in the form that the client asked for.

The common case comes first and does nothing: an object or a list that is stored as it is wanted goes out as the bytes
that the cache has. Everything else (another version, metadata alone, a table, YAML, protobuf, text for people) is made
here from those bytes, in steps short enough not to hold up other requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial as bound
from typing import TYPE_CHECKING, Any

import msgspec

from sampan.api.codec import json as json_codec
from sampan.api.resource import Resource
from sampan.apiserver import compression, frames, media, negotiation, partial
from sampan.apiserver.call import Call
from sampan.apiserver.conversions import Versions
from sampan.apiserver.negotiation import JSON, PLAIN, PROTOBUF, TABLE, Form
from sampan.apiserver.results import BytesAnswer, ListAnswer, ObjectAnswer, ValueAnswer, WatchAnswer
from sampan.apiserver.tables.table import TableWriter, include_of
from sampan.machinery import errors
from sampan.storage.cacher import Item, ListResult

if TYPE_CHECKING:
    from sampan.apiserver.endpoints import Endpoints

_ROWS_AT_A_TIME = 200
_KEPT_PROTOBUF = 32 << 20


@dataclass(frozen=True, slots=True)
class Rendered:
    code: int
    content_type: str
    chunks: Iterable[bytes]
    """The body in pieces; one piece is the common case."""
    headers: dict[str, str] = field(default_factory=dict)


class Renderer:
    def __init__(self, *, endpoints: Endpoints) -> None:
        self._registry, self._versions = endpoints.registry, endpoints.versions
        self._protobuf = _ProtobufBodies(_KEPT_PROTOBUF)

    async def render(
        self, answer: ObjectAnswer | ListAnswer | ValueAnswer | BytesAnswer, form: Form, call: Call
    ) -> Rendered:
        if isinstance(answer, ObjectAnswer):
            rendered = await self._object(answer, form, call)
        elif isinstance(answer, ListAnswer):
            rendered = await self._list(answer, form, call)
        elif isinstance(answer, BytesAnswer):
            return Rendered(answer.code, answer.content_type, (answer.body,), answer.headers)
        else:
            raw = json_codec.encode(answer.value)
            form = _supported(raw, form)
            rendered = Rendered(answer.code, form.media, (await media.encode(raw, form, call),), answer.headers)
        return _compressed(rendered, call)

    async def error(self, error: errors.ApiError, call: Call) -> Rendered:
        """A failure, in a form that the client takes or else in JSON."""
        form = negotiation.form_of_error(call.headers.get("Accept", ""))
        body = await media.encode(json_codec.encode(error.status), form, call)
        headers = {"Retry-After": str(wait)} if (wait := error.retry_after_s) else {}
        return Rendered(error.code, form.media, (body,), headers)

    def frames(self, answer: WatchAnswer, call: Call) -> frames.Frames:
        """How the events of a watch are written."""
        return frames.frames(self, call, answer.resource)

    # -- one object --------------------------------------------------------------------------------------------------

    async def _object(self, answer: ObjectAnswer, form: Form, call: Call) -> Rendered:
        raw = answer.raw
        if form.as_kind == TABLE:
            raw = self._table_of_object(answer, form, call)
        elif form.as_kind:
            partial.check(form, answer.resource, is_list=False)
            raw = partial.of_object(raw, form)
        return Rendered(answer.code, form.media, (await media.encode(raw, form, call),))

    def _table_of_object(self, answer: ObjectAnswer, form: Form, call: Call) -> bytes:
        writer = self.table_writer(answer.resource, form, include_of(call))
        obj = answer.obj
        if obj is None:
            obj = self._decoded(answer)
        row = writer.row(obj, lambda: answer.raw)
        return writer.table({"resourceVersion": _version_of(answer.raw)}, [row])

    def _decoded(self, answer: ObjectAnswer) -> Any:
        """The object as it is stored, which is what columns are declared for."""
        resource = answer.resource
        if answer.item is not None:
            return self._registry.store(resource).cacher.object(answer.item)
        shown = self._registry.codec(resource.gvk, resource).decode(answer.raw)
        return self._versions.to_stored(resource, shown)

    # -- lists -------------------------------------------------------------------------------------------------------

    async def _list(self, answer: ListAnswer, form: Form, call: Call) -> Rendered:
        resource, result = answer.resource, answer.result
        if form.as_kind == TABLE:
            raw = await self._table_of_list(answer, form, call)
            return Rendered(200, form.media, (await media.encode(raw, form, call),))
        if form.as_kind:
            partial.check(form, resource, is_list=True)
            chunks = partial.of_list(result, form)
        elif form.media == PROTOBUF:
            return Rendered(200, PROTOBUF, (await self._protobuf_list(resource, result),))
        elif form.media == JSON and media.is_pretty(call, form):
            head, items = list_head(resource, result), list_items(resource, result, self._versions)
            return Rendered(200, JSON, media.pretty_list(head, items))
        else:
            chunks = list_chunks(resource, result, self._versions)
        if form.media == JSON and not media.is_pretty(call, form):
            return Rendered(200, JSON, _with_newline(chunks))
        return Rendered(200, form.media, (await media.encode(b"".join(chunks), form, call),))

    async def _table_of_list(self, answer: ListAnswer, form: Form, call: Call) -> bytes:
        resource, result = answer.resource, answer.result
        writer = self.table_writer(resource, form, include_of(call))
        cacher, rows = self._registry.store(resource).cacher, []
        for number, item in enumerate(result.items, 1):
            rows.append(writer.row(cacher.object(item), bound(self.shown, resource, item)))
            if number % _ROWS_AT_A_TIME == 0:
                await asyncio.sleep(0)
        metadata = partial.list_metadata(result)
        if not rows and self._is_generic(resource):
            return writer.opening(metadata) + b"null}"
        return writer.table(metadata, rows)

    async def _protobuf_list(self, resource: Resource, result: ListResult) -> bytes:
        from sampan.api.codec import protobuf

        bodies = []
        for number, item in enumerate(result.items, 1):
            bodies.append(self._protobuf.get(resource, item, self.shown))
            if number % _ROWS_AT_A_TIME == 0:
                await asyncio.sleep(0)
        kind = result.shape.list_kind or f"{resource.kind}List"
        return protobuf.join_list(resource.gvk.api_version, kind, partial.list_metadata(result), bodies)

    # -- parts that watch frames use too -----------------------------------------------------------------------------

    def table_writer(self, resource: Resource, form: Form, include: str) -> TableWriter:
        return TableWriter(
            columns=self._registry.served(resource).strategy.columns,
            kind=resource.storage or resource.gvk,
            form=form,
            include=include,
            now=self._registry.clock.now(),
        )

    def shown(self, resource: Resource, item: Item) -> bytes:
        """An item of the cache in the version that was asked for."""
        return self._versions.show(resource, item.raw)

    def stored(self, resource: Resource, item: Item) -> Any:
        """An item of the cache as an object."""
        return self._registry.store(resource).cacher.object(item)

    def _is_generic(self, resource: Resource) -> bool:
        return resource.is_custom or not self._registry.served(resource).strategy.columns


def list_chunks(resource: Resource, result: ListResult, versions: Versions) -> Iterator[bytes]:
    """A list as JSON in the version that was asked for, in pieces."""
    if versions.is_stored(resource):
        return result.chunks()
    return _joined(list_head(resource, result), list_items(resource, result, versions))


def list_head(resource: Resource, result: ListResult) -> bytes:
    stored = resource.storage
    if stored is None or stored == resource.gvk:
        return result.head
    kind, version = f"{resource.kind}List".encode(), resource.gvk.api_version.encode()
    metadata = msgspec.json.encode(partial.list_metadata(result))
    return b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":[' % (kind, version, metadata)


def list_items(resource: Resource, result: ListResult, versions: Versions) -> Iterator[bytes]:
    """The items one by one, as they stand in a list."""
    shape = result.shape
    if versions.is_stored(resource):
        opening = shape.head if shape.is_custom else b"{"
        for item in result.items:
            yield (opening if item.head is shape.head else item.head) + item.body
        return
    title = b'{"kind":"%b","apiVersion":"%b",' % (resource.kind.encode(), resource.gvk.api_version.encode())
    for item in result.items:
        raw = versions.show(resource, item.raw)
        yield b"{" + raw[len(title) :] if raw.startswith(title) else raw


def _joined(head: bytes, items: Iterable[bytes], size: int = 256 << 10) -> Iterator[bytes]:
    pending, length, separator = [head], 0, b""
    for item in items:
        pending += (separator, item)
        separator = b","
        length += len(item)
        if length >= size:
            yield b"".join(pending)
            pending.clear()
            length = 0
    pending.append(b"]}")
    yield b"".join(pending)


class _ProtobufBodies:
    """Messages of objects at a version, the most recently used of them kept, for lists that are asked for again."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._kept: dict[tuple[str, str, int], bytes] = {}

    def get(self, resource: Resource, item: Item, shown: Any) -> bytes:
        from sampan.api.codec import protobuf

        key = (resource.gvk.api_version, item.key, item.revision)
        found = self._kept.pop(key, None)
        if found is None:
            value = json_codec.read_any(shown(resource, item))
            found = protobuf.encode_body(resource.gvk.api_version, resource.kind, value)
            self._size += len(found)
            while self._size > self._most and self._kept:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
        self._kept[key] = found
        return found


def _with_newline(chunks: Iterator[bytes]) -> Iterator[bytes]:
    last = next(chunks)
    for chunk in chunks:
        yield last
        last = chunk
    yield last + b"\n"


class _Versioned(msgspec.Struct, gc=False):
    metadata: _Version


class _Version(msgspec.Struct, gc=False):
    resourceVersion: str = ""


_decode_version = msgspec.json.Decoder(_Versioned).decode


def _version_of(raw: bytes) -> str:
    return _decode_version(raw).metadata.resourceVersion


def _supported(raw: bytes, form: Form) -> Form:
    """JSON for values that have no protobuf message."""
    if form.media != PROTOBUF:
        return form
    from sampan.api.codec import protobuf

    return form if protobuf.supports(*json_codec.read_kind(raw)) else PLAIN


def _compressed(rendered: Rendered, call: Call) -> Rendered:
    """gzip where the answer is large and the client wants it."""
    chunks = rendered.chunks
    if isinstance(chunks, tuple) and len(chunks[0]) <= compression.THRESHOLD:
        return rendered
    if not compression.wants_gzip(call.headers.get("Accept-Encoding", "")):
        return rendered
    pieces = iter(chunks)
    first = next(pieces)
    if len(first) <= compression.THRESHOLD:
        return Rendered(rendered.code, rendered.content_type, _chained(first, pieces), rendered.headers)
    headers = {**rendered.headers, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Rendered(rendered.code, rendered.content_type, compression.gzipped(_chained(first, pieces)), headers)


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


__all__ = ["Rendered", "Renderer", "list_chunks"]
