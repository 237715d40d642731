"""Between bytes and objects of one resource, whether they have a generated type or are dicts."""

from typing import Any

import msgspec

from sampan.api import gotext
from sampan.api.codec import custom, fields
from sampan.api.codec import json as codec
from sampan.api.codec.careful import kind as kind_of_value
from sampan.api.resource import GroupVersionKind
from sampan.api.schema import Schema, copy_value
from sampan.apiserver.registry.objects import Unstructured

_encoder = msgspec.json.Encoder()


class ResourceCodec:
    """`kind` names what the objects are; `type` is their Struct, None for dict-backed ones, which have a schema."""

    def __init__(self, *, kind: GroupVersionKind, type: type[Any] | None, schema: Schema) -> None:
        self.kind, self.type, self.schema = kind, type, schema

    def encode(self, obj: Any) -> bytes:
        """Kind, apiVersion and metadata come first, which is what the cache relies on."""
        if self.type is None:
            title = {"kind": obj.kind, "apiVersion": obj.apiVersion, "metadata": obj.metadata}
            return _encoder.encode({**title, **obj.content})
        return _encoder.encode(obj)

    def decode(self, raw: bytes) -> Any:
        """A stored object; what its type does not know is passed over."""
        if self.type is None:
            return Unstructured.from_value(codec.read_any(raw))
        return codec.read(raw, self.type)

    def decode_to_keep(self, raw: bytes) -> Any:
        """A stored object that will be kept: it must not hold on to all of `raw` by the small parts it has as bytes."""
        found = self.decode(raw)
        for entry in found.metadata.managedFields:
            entry.fieldsV1 = entry.fieldsV1.copy()
        return found

    def parse(self, body: bytes) -> tuple[Any, list[str]]:
        """A client's object, and the unknown and duplicate fields in it. DecodeError for what is none."""
        if self.type is None:
            value, strict = custom.decode(body, self.schema)
            return self._completed(value), strict
        return codec.decode(body, self.type)

    def from_value(self, value: Any) -> tuple[Any, list[str]]:
        """An object from a JSON value (a patched one), and the unknown fields in it. DecodeError for what is none."""
        if self.type is not None:
            return codec.decode_value(value, self.type)
        if not isinstance(value, dict):
            why = f"json: cannot unmarshal {kind_of_value(value)} into Go value of type map[string]interface {{}}"
            raise codec.DecodeError(why)
        own = copy_value(value)
        _check_title(own)
        unknown = custom.accept(own, self.schema)
        return self._completed(own), [f"unknown field {gotext.quote(path)}" for path in unknown]

    def _completed(self, value: dict[str, Any]) -> Unstructured:
        """A dict that was pruned, with the defaults of its schema."""
        fields.apply_defaults(value, self.schema)
        return Unstructured.from_value(value)


def _check_title(value: dict[str, Any]) -> None:
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field, ""), str):
            kind = kind_of_value(value[field])
            raise codec.DecodeError(f"json: cannot unmarshal {kind} into Go struct field .{field} of type string")


__all__ = ["ResourceCodec"]
