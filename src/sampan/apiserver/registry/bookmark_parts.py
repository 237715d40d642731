"""What a bookmark carries besides its version: the parts that an empty object of its kind has."""

from sampan.apiserver.registry.codec import ResourceCodec

_METADATA = b'"metadata":{}'
_COUNTED = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
"""Kinds whose number of replicas the real server never leaves open."""


def bookmark_rest(codec: ResourceCodec) -> bytes:
    """What follows the metadata of an empty object, up to its closing brace; nothing for custom ones."""
    if codec.type is None:
        return b""
    empty = codec.type()
    if codec.kind.group == "apps" and codec.kind.kind in _COUNTED:
        empty.spec.replicas = 0
    return codec.encode(empty).partition(_METADATA)[2].removesuffix(b"}")


__all__ = ["bookmark_rest"]
