"""The content of bookmark events besides the resource version: the fields that an empty object of the kind has."""

from sampan.apiserver.registry.codec import ResourceCodec

_METADATA = b'"metadata":{}'
_COUNTED = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
"""Kinds whose `spec.replicas` is always present in kube-apiserver's bookmarks."""


def bookmark_rest(codec: ResourceCodec) -> bytes:
    """Return the JSON after the metadata of an empty object, up to its closing brace; empty for custom resources."""
    if codec.type is None:
        return b""
    empty = codec.type()
    if codec.kind.group == "apps" and codec.kind.kind in _COUNTED:
        empty.spec.replicas = 0
    return codec.encode(empty).partition(_METADATA)[2].removesuffix(b"}")
