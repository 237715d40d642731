"""Lists as JSON in any version, joined from the bytes of their items."""

from collections.abc import Iterable, Iterator

import msgspec

from sampan.api.resource import Resource
from sampan.apiserver import partial
from sampan.apiserver.conversions import Versions
from sampan.storage.cacher import ListResult


def chunks(resource: Resource, result: ListResult, versions: Versions) -> Iterator[bytes]:
    """Return a list as JSON in the version of the path, in chunks."""
    if versions.is_stored(resource):
        return result.chunks()
    return _joined(head(resource, result), items(resource, result, versions))


def head(resource: Resource, result: ListResult) -> bytes:
    stored = resource.storage
    if stored is None or stored == resource.gvk:
        return result.head
    kind, version = f"{resource.kind}List".encode(), resource.gvk.api_version.encode()
    metadata = msgspec.json.encode(partial.list_metadata(result))
    return b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":[' % (kind, version, metadata)


def items(resource: Resource, result: ListResult, versions: Versions) -> Iterator[bytes]:
    """Return the JSON of each item, in the form that items have within a list."""
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


def _joined(start: bytes, pieces: Iterable[bytes], size: int = 256 << 10) -> Iterator[bytes]:
    pending, length, separator = [start], 0, b""
    for item in pieces:
        pending += (separator, item)
        separator = b","
        length += len(item)
        if length >= size:
            yield b"".join(pending)
            pending.clear()
            length = 0
    pending.append(b"]}")
    yield b"".join(pending)


def with_newline(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Append a newline to the last chunk."""
    last = next(pieces)
    for piece in pieces:
        yield last
        last = piece
    yield last + b"\n"
