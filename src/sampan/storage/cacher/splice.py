"""Putting the resource version into stored bytes without decoding them.

A stored value is an object without metadata.resourceVersion that begins with its kind and apiVersion and goes on with
its metadata. `splice` cuts it into the head (kind and apiVersion, the same bytes for all objects of a resource) and
the body, which then begins `"metadata":{"resourceVersion":"N"`. Values that others wrote in another order, with spaces
or with a version are brought into that form first, field by field, the fields themselves staying as they were.
"""

import msgspec

_METADATA = b'"metadata":{'
_VERSION = b'"metadata":{"resourceVersion":"'
_BRACE = ord("}")

_Fields = dict[str, msgspec.Raw]
_decode_fields = msgspec.json.Decoder(_Fields).decode


def splice(value: bytes, revision: int, head: bytes, *, is_clean: bool = True) -> tuple[bytes, bytes]:
    """The head and the body. `head` is what is expected, and is the very object returned where the value begins so.
    `is_clean` tells that metadata has no resourceVersion already."""
    if not (is_clean and value.startswith(head) and value.startswith(_METADATA, len(head))):
        return _rearranged(value, revision, head)
    at = len(head) + len(_METADATA)
    rest = value[at:]
    if rest[-1] != _BRACE:
        rest = rest.rstrip()
    if rest[0] == _BRACE:
        return head, b'"metadata":{"resourceVersion":"%d"' % revision + rest
    return head, b'"metadata":{"resourceVersion":"%d",' % revision + rest


def respliced(body: bytes, old: int, new: int) -> bytes:
    """The same body at another version."""
    return b'"metadata":{"resourceVersion":"%d' % new + body[len(_VERSION) + len(str(old)) :]


def _rearranged(value: bytes, revision: int, head: bytes) -> tuple[bytes, bytes]:
    fields = _decode_fields(msgspec.json.format(value, indent=-1))
    kind, version = (bytes(fields.pop(name, b'""')) for name in ("kind", "apiVersion"))
    metadata = _decode_fields(fields.pop("metadata", b"{}"))
    metadata.pop("resourceVersion", None)
    inner = {"resourceVersion": msgspec.Raw(b'"%d"' % revision), **metadata}
    body = msgspec.json.encode({"metadata": inner, **fields})[1:]
    found = b'{"kind":%b,"apiVersion":%b,' % (kind, version)
    return (head if found == head else found), body
