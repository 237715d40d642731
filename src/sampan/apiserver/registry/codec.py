"""Between bytes and objects of one resource, whether they have a generated type or are dicts."""

from typing import Any

import msgspec

from sampan.api.codec import careful
from sampan.api.codec import json as codec
from sampan.api.resource import GroupVersionKind
from sampan.api.schema import Schema
from sampan.apiserver.registry.objects import Unstructured

_encoder = msgspec.json.Encoder()


class ResourceCodec:
    """`kind` names what the objects are; `type` is their Struct, None for dict-backed ones, which have a schema."""

    def __init__(self, *, kind: GroupVersionKind, type: type[Any] | None, schema: Schema) -> None:
        self.kind, self.type, self.schema = kind, type, schema

    def encode(self, obj: Any) -> bytes:
        """Kind, apiVersion and metadata come first, which is what the cache relies on."""
        if self.type is None:
            return _encoder.encode(obj.to_value())
        return codec.encode(obj)

    def decode(self, raw: bytes) -> Any:
        """A stored object; what its type does not know is passed over."""
        if self.type is None:
            return Unstructured.from_value(codec.read_any(raw))
        return codec.read(raw, self.type)

    def parse(self, body: bytes) -> tuple[Any, list[str]]:
        """A client's object, and the unknown and duplicate fields in it."""
        if self.type is None:
            value, duplicates = codec.decode_any(body)
            obj, unknown = self.from_value(value)
            return obj, unknown + duplicates
        return codec.decode(body, self.type)

    def from_value(self, value: Any) -> tuple[Any, list[str]]:
        """An object from a JSON value (a patched one), and the unknown fields in it."""
        known, unknown = careful.decode(value, self.schema)
        if self.type is None:
            return Unstructured.from_value(known), unknown
        return codec.convert(known, self.type), unknown

    def to_value(self, raw: bytes) -> dict[str, Any]:
        value: dict[str, Any] = codec.read_any(raw)
        return value
