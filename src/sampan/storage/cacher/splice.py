"""Insertion of the resource version into stored bytes without decoding them.

A stored value is an object without metadata.resourceVersion that starts with its kind and apiVersion, followed by its
metadata. `splice` cuts it into the head (kind and apiVersion, the same bytes for all objects of a resource) and the
body, which then starts with `"metadata":{"resourceVersion":"N"`. Values that other clients wrote in another order, with
whitespace or with a version are normalized first, field by field, without changing the fields themselves.
"""

import msgspec

_METADATA = b'"metadata":{'
_VERSION = b'"metadata":{"resourceVersion":"'
_BRACE = ord("}")

_Fields = dict[str, msgspec.Raw]
_decode_fields = msgspec.json.Decoder(_Fields).decode


def splice(value: bytes, revision: int, head: bytes, *, is_clean: bool = True) -> tuple[bytes, bytes]:
    """Return the head and the body.

    `head` is the expected head; that same object is returned if the value starts with it. `is_clean` states that the
    metadata contains no resourceVersion.
    """
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
    """Return the same body at another resource version."""
    return b'"metadata":{"resourceVersion":"%d' % new + body[len(_VERSION) + len(str(old)) :]


def _rearranged(value: bytes, revision: int, head: bytes) -> tuple[bytes, bytes]:
    fields = _decode_fields(msgspec.json.format(value, indent=-1))
    kind, version = (bytes(fields.pop(name, b'""')) for name in ("kind", "apiVersion"))
    metadata = _decode_fields(fields.pop("metadata", b"{}"))
    metadata.pop("resourceVersion", None)
    inner = {"resourceVersion": msgspec.Raw(b'"%d"' % revision), **metadata}
    body = msgspec.json.encode({"metadata": inner, **fields})[1:]
    own_head = b'{"kind":%b,"apiVersion":%b,' % (kind, version)
    return (head if own_head == head else own_head), body
