"""The schema trees of the built-in kinds, by their published names, read from data/schemas.json.

The file is split into definitions on first use; a definition is decoded when it, or one that refers to it, is
requested.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from sampan.api.schema.tree import Schema
from sampan.api.types.base import Struct


def definition(name: str) -> Schema:
    """Return the tree of a definition such as `io.k8s.api.core.v1.Pod`, the same object at every call. Raise
    KeyError."""
    return _definitions()[name]


def schema_of(type: type[Struct]) -> Schema:
    """Return the schema tree of a generated Python type of the API."""
    return definition(f"{sys.modules[type.__module__].PACKAGE}.{type.__name__}")


def names() -> Iterator[str]:
    """Return the names of all definitions, sorted."""
    return iter(_definitions())


class _Definitions(Mapping[str, Schema]):
    def __init__(self, encoded: dict[str, msgspec.Raw]) -> None:
        self._encoded = encoded
        self._decoded: dict[str, Schema] = {}
        self._decoder = msgspec.json.Decoder(Schema)

    def __getitem__(self, name: str) -> Schema:
        if (schema := self._decoded.get(name)) is None:
            schema = self._decoded[name] = self._decoder.decode(self._encoded[name])
            self._link(schema)  # registered before it is linked, because it may contain itself
        return schema

    def __iter__(self) -> Iterator[str]:
        return iter(self._encoded)

    def __len__(self) -> int:
        return len(self._encoded)

    def _link(self, node: Schema) -> None:
        if node.ref:
            self._share(node, self[node.ref])
            return
        for child in node.properties.values():
            self._link(child)
        for below in (node.items, node.additional):
            if below is not None:
                self._link(below)

    @staticmethod
    def _share(node: Schema, target: Schema) -> None:
        node.type, node.format, node.name = target.type, target.format, target.name
        node.properties, node.items, node.required = target.properties, target.items, target.required
        node.preserve_unknown = target.preserve_unknown
        node.map_type = node.map_type or target.map_type


@cache
def _definitions() -> _Definitions:
    data = Path(__file__).parents[1].joinpath("data", "schemas.json").read_bytes()
    return _Definitions(msgspec.json.decode(data, type=dict[str, msgspec.Raw]))
