"""Objects of kinds without a Struct: custom resources, and anything registered at run time.

`Unstructured` has the same `kind`, `apiVersion` and `metadata` attributes as the generated types, so that registry and
clients treat both alike; the rest of the object stays a dict.
"""

from collections.abc import Mapping
from typing import Any, Self

from sampan.api.codec import json as codec
from sampan.api.types.meta_v1 import ObjectMeta


class Unstructured:
    __slots__ = ("apiVersion", "content", "kind", "metadata")

    def __init__(self, *, kind: str, apiVersion: str, metadata: ObjectMeta, content: dict[str, Any]) -> None:
        self.kind, self.apiVersion, self.metadata, self.content = kind, apiVersion, metadata, content

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Self:
        content = dict(value)
        metadata = codec.from_value(content.pop("metadata", None) or {}, ObjectMeta)
        return cls(
            kind=content.pop("kind", ""), apiVersion=content.pop("apiVersion", ""), metadata=metadata, content=content
        )

    def to_value(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "apiVersion": self.apiVersion,
            "metadata": codec.to_value(self.metadata),
            **self.content,
        }

    def __getattr__(self, name: str) -> Any:
        if name in Unstructured.__slots__:  # a copy under construction does not have them yet
            raise AttributeError(name)
        try:
            return self.content[name]
        except KeyError:
            raise AttributeError(name) from None
