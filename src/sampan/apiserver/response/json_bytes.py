"""Lists as JSON bytes in the version of the request path, and PartialObjectMetadata cut out of the bytes of objects."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from sampan.api.resources.resource import Resource
from sampan.apiserver.request.negotiation import PARTIAL, PARTIAL_LIST, OutputFormat
from sampan.apiserver.response.responses import VersionConverter
from sampan.machinery import errors
from sampan.storage.cacher import ListResult


class _Object(msgspec.Struct, gc=False):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode = msgspec.json.Decoder(_Object).decode


def raw_metadata(raw: bytes) -> msgspec.Raw:
    """Return the undecoded metadata in an object's JSON."""
    return _decode(raw).metadata


def partial_object(raw: bytes, output_format: OutputFormat) -> bytes:
    return partial_opening(output_format) + bytes(raw_metadata(raw)) + b"}"


def partial_opening(output_format: OutputFormat) -> bytes:
    """Return the beginning of a PartialObjectMetadata, up to its metadata."""
    return b'{"kind":"%b","apiVersion":"%b","metadata":' % (PARTIAL.encode(), output_format.api_version.encode())


def partial_list(result: ListResult, output_format: OutputFormat, size: int = 256 << 10) -> Iterator[bytes]:
    """Return the list in chunks of about `size` bytes. The items of an empty list are null."""
    head = b'{"kind":"%b","apiVersion":"%b","metadata":' % (PARTIAL_LIST.encode(), output_format.api_version.encode())
    pending = [head, msgspec.json.encode(list_metadata(result)), b',"items":', b"[" if result.items else b"null}"]
    start, length, separator = partial_opening(output_format), 0, b""
    for item in result.items:
        metadata = bytes(raw_metadata(item.raw))
        pending += (separator, start, metadata, b"}")
        separator = b","
        length += len(metadata)
        if length >= size:
            yield b"".join(pending)
            pending.clear()
            length = 0
    if result.items:
        pending.append(b"]}")
    yield b"".join(pending)


def list_metadata(result: ListResult) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": str(result.revision)}
    if result.continue_token:
        metadata["continue"] = result.continue_token
    if result.remaining is not None:
        metadata["remainingItemCount"] = result.remaining
    return metadata


def check_partial_kind(output_format: OutputFormat, resource: Resource, *, is_list: bool) -> None:
    """Raise NotAcceptable for PartialObjectMetadata of a list, or PartialObjectMetadataList of a single object."""
    if is_list and output_format.as_kind == PARTIAL:
        raise _mismatch(f"you requested {PARTIAL}, but the requested object is a list ({_go_type(resource, 'List')})")
    if not is_list and output_format.as_kind == PARTIAL_LIST:
        if resource.is_custom:
            raise errors.unexpected_error("content is not a list")
        raise _mismatch(f"you requested {PARTIAL_LIST}, but the requested object is not a list ({_go_type(resource)})")


def _mismatch(message: str) -> errors.ApiError:
    return errors.NotAcceptable(message)


def _go_type(resource: Resource, suffix: str = "") -> str:
    if resource.is_custom:
        return f"*unstructured.Unstructured{suffix}"
    stored = resource.storage or resource.gvk
    return f"*{stored.group.partition('.')[0] or 'core'}.{stored.kind}{suffix}"


def list_chunks(resource: Resource, result: ListResult, versions: VersionConverter) -> Iterator[bytes]:
    """Return a list as JSON in the version of the path, in chunks."""
    if resource.is_storage_version:
        return result.chunks()
    return _join_chunks(list_head(resource, result), list_items(resource, result, versions))


def list_head(resource: Resource, result: ListResult) -> bytes:
    stored = resource.storage
    if stored is None or stored == resource.gvk:
        return result.head
    kind, version = f"{resource.kind}List".encode(), resource.gvk.api_version.encode()
    metadata = msgspec.json.encode(list_metadata(result))
    return b'{"kind":"%b","apiVersion":"%b","metadata":%b,"items":[' % (kind, version, metadata)


def list_items(resource: Resource, result: ListResult, versions: VersionConverter) -> Iterator[bytes]:
    """Return the JSON of each item, in the form that items have within a list."""
    shape = result.shape
    if resource.is_storage_version:
        opening = shape.head if shape.is_custom else b"{"
        for item in result.items:
            yield (opening if item.head is shape.head else item.head) + item.body
        return
    title = b'{"kind":"%b","apiVersion":"%b",' % (resource.kind.encode(), resource.gvk.api_version.encode())
    for item in result.items:
        raw = versions.to_requested_bytes(resource, item.raw)
        yield b"{" + raw[len(title) :] if raw.startswith(title) else raw


def _join_chunks(start: bytes, pieces: Iterable[bytes], size: int = 256 << 10) -> Iterator[bytes]:
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


def append_newline(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Append a newline to the last chunk."""
    last = next(pieces)
    for piece in pieces:
        yield last
        last = piece
    yield last + b"\n"
