"""A cache of objects encoded as protobuf, for repeated lists: encoding one object takes 50 us."""

from collections.abc import Callable

from sampan.api.codec import json as json_codec
from sampan.api.resource import Resource
from sampan.storage.cacher import Item


class ProtobufBodies:
    """A least-recently-used cache of messages without envelopes, of at most `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._kept: dict[tuple[str, str, int], bytes] = {}

    def get(self, resource: Resource, item: Item, shown: Callable[[Resource, Item], bytes]) -> bytes:
        from sampan.api.codec import protobuf

        key = (resource.gvk.api_version, item.key, item.revision)
        body = self._kept.pop(key, None)
        if body is None:
            value = json_codec.read_any(shown(resource, item))
            body = protobuf.encode_body(resource.gvk.api_version, resource.kind, value)
            self._size += len(body)
            while self._size > self._most and self._kept:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
        self._kept[key] = body
        return body
