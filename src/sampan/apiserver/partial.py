"""PartialObjectMetadata and PartialObjectMetadataList, cut out of the bytes of objects."""

from collections.abc import Iterator
from typing import Any

import msgspec

from sampan.api.resource import Resource
from sampan.apiserver.negotiation import PARTIAL, PARTIAL_LIST, Form
from sampan.machinery import errors
from sampan.storage.cacher import ListResult


class _Object(msgspec.Struct, gc=False):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode = msgspec.json.Decoder(_Object).decode


def metadata_of(raw: bytes) -> msgspec.Raw:
    """Return the undecoded metadata in an object's JSON."""
    return _decode(raw).metadata


def of_object(raw: bytes, form: Form) -> bytes:
    return opening(form) + bytes(metadata_of(raw)) + b"}"


def opening(form: Form) -> bytes:
    """Return the beginning of a PartialObjectMetadata, up to its metadata."""
    return b'{"kind":"%b","apiVersion":"%b","metadata":' % (PARTIAL.encode(), form.api_version.encode())


def of_list(result: ListResult, form: Form, size: int = 256 << 10) -> Iterator[bytes]:
    """Return the list in chunks of about `size` bytes. The items of an empty list are null."""
    head = b'{"kind":"%b","apiVersion":"%b","metadata":' % (PARTIAL_LIST.encode(), form.api_version.encode())
    pending = [head, msgspec.json.encode(list_metadata(result)), b',"items":', b"[" if result.items else b"null}"]
    start, length, separator = opening(form), 0, b""
    for item in result.items:
        metadata = bytes(metadata_of(item.raw))
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


def check(form: Form, resource: Resource, *, is_list: bool) -> None:
    """Raise NotAcceptable for PartialObjectMetadata of a list, or PartialObjectMetadataList of a single object."""
    if is_list and form.as_kind == PARTIAL:
        raise _mismatch(f"you requested {PARTIAL}, but the requested object is a list ({_go_type(resource, 'List')})")
    if not is_list and form.as_kind == PARTIAL_LIST:
        raise _mismatch(f"you requested {PARTIAL_LIST}, but the requested object is not a list ({_go_type(resource)})")


def _mismatch(message: str) -> errors.ApiError:
    return errors.NotAcceptable(message)


def _go_type(resource: Resource, suffix: str = "") -> str:
    if resource.is_custom:
        return f"*unstructured.Unstructured{suffix}"
    stored = resource.storage or resource.gvk
    return f"*{stored.group.partition('.')[0] or 'core'}.{stored.kind}{suffix}"
