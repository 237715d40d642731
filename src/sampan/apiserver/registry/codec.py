"""Encoding and decoding of the objects of one resource, both generated types and custom resources."""

from typing import Any

import msgspec

from sampan.api.codec import custom
from sampan.api.codec import json as codec
from sampan.api.codec.careful import kind as kind_of_value
from sampan.api.go_compat import gotext
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.schema.tree import Schema, SchemaSource, copy_value
from sampan.api.unstructured import Unstructured

_encoder = msgspec.json.Encoder()


class ResourceCodec:
    """The codec of one kind. `type` is its Struct, None for custom resources, whose objects are dicts with a schema."""

    def __init__(self, *, kind: GroupVersionKind, type: type[Any] | None, schema: SchemaSource) -> None:
        self.kind, self.type, self._schema = kind, type, schema

    @property
    def schema(self) -> Schema:
        return self._schema.tree

    def encode(self, obj: Any) -> bytes:
        """Return the object as JSON. Kind, apiVersion and metadata come first, which the cache relies on."""
        if self.type is None:
            title = {"kind": obj.kind, "apiVersion": obj.apiVersion, "metadata": obj.metadata}
            return _encoder.encode({**title, **obj.content})
        return _encoder.encode(obj)

    def decode(self, raw: bytes) -> Any:
        """Return a stored object; fields that its type does not know are ignored."""
        if self.type is None:
            return Unstructured.from_value(codec.read_any(raw))
        return codec.read(raw, self.type)

    def decode_to_keep(self, raw: bytes) -> Any:
        """Return a stored object that outlives `raw`; fieldsV1 is copied because it would keep `raw` in memory."""
        obj = self.decode(raw)
        for entry in obj.metadata.managedFields:
            entry.fieldsV1 = entry.fieldsV1.copy()
        return obj

    def parse(self, body: bytes) -> tuple[Any, list[str]]:
        """Return the object in a request body, and its unknown and duplicate fields. Raise DecodeError if malformed."""
        if self.type is None:
            value, strict = custom.decode(body, self.schema)
            return self._build_object(value), strict
        return codec.decode(body, self.type)

    def from_value(self, value: Any) -> tuple[Any, list[str]]:
        """Return the object for a JSON value (a patch result) and its unknown fields. Raise DecodeError if invalid."""
        if self.type is not None:
            return codec.decode_value(value, self.type)
        if not isinstance(value, dict):
            why = f"json: cannot unmarshal {kind_of_value(value)} into Go value of type map[string]interface {{}}"
            raise codec.DecodeError(why)
        own = copy_value(value)
        _check_title(own)
        unknown = custom.normalize(own, self.schema)
        return self._build_object(own), [f"unknown field {gotext.quote(path)}" for path in unknown]

    def _build_object(self, value: dict[str, Any]) -> Unstructured:
        """Return the object for a pruned dict, after applying the defaults of the schema."""
        custom.apply_defaults(value, self.schema)
        return Unstructured.from_value(value)


def _check_title(value: dict[str, Any]) -> None:
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str | None):
            kind = kind_of_value(value[field])
            raise codec.DecodeError(f"json: cannot unmarshal {kind} into Go struct field .{field} of type string")


_METADATA = b'"metadata":{}'
_REPLICATED_KINDS = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})
"""Kinds whose `spec.replicas` is always present in kube-apiserver's bookmarks."""


def bookmark_rest(codec: ResourceCodec) -> bytes:
    """Return the JSON after the metadata of an empty object, up to its closing brace; empty for custom resources."""
    if codec.type is None:
        return b""
    empty = codec.type()
    if codec.kind.group == "apps" and codec.kind.kind in _REPLICATED_KINDS:
        empty.spec.replicas = 0
    return codec.encode(empty).partition(_METADATA)[2].removesuffix(b"}")
