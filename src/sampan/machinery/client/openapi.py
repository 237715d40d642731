"""Schemas of kinds from the OpenAPI v3 documents of a server, for kinds that are not built in."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sampan.api import schemas
from sampan.api.codec import json
from sampan.api.resource import GroupVersionKind
from sampan.api.schema import Schema, from_openapi
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery import errors
from sampan.machinery.client.client import Client
from sampan.machinery.client.transport import ConnectionFailed, Request

_REFERENCE = "#/components/schemas/"
_KINDS = "x-kubernetes-group-version-kind"
_MOST_NODES = 50_000
"""The size of a schema without references: those of a hostile server could describe an endless one."""
_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


async def kind_schemas(client: Client, group: str, version: str) -> dict[GroupVersionKind, Schema]:
    """Return the schemas of the kinds of a group and version; empty if the server publishes none."""
    path = f"/openapi/v3/apis/{group}/{version}" if group else f"/openapi/v3/api/{version}"
    try:
        response = await client.send(Request(method="GET", path=path, headers={"Accept": "application/json"}))
    except (errors.ApiError, ConnectionFailed):
        return {}
    return await asyncio.to_thread(lambda: schemas_of_document(json.read_any(response.body()), group, version))


def schemas_of_document(document: Mapping[str, Any], group: str, version: str) -> dict[GroupVersionKind, Schema]:
    """Return the schemas of the kinds of a group and version in an OpenAPI v3 document."""
    components: Mapping[str, Any] = document.get("components", {}).get("schemas", {})
    published = {}
    for source in components.values():
        for row in source.get(_KINDS) or ():
            kind = GroupVersionKind(group=row.get("group", ""), version=row["version"], kind=row["kind"])
            if (kind.group, kind.version) == (group, version) and "metadata" in (source.get("properties") or ()):
                schema = from_openapi(_References(components).resolve(source))
                schema.properties = {**schema.properties, "metadata": schemas.of(ObjectMeta)}
                published[kind] = schema
    return published


class _References:
    """Puts schemas in place of the references to them. A schema within itself, and whatever exceeds `_MOST_NODES`,
    accepts everything."""

    def __init__(self, components: Mapping[str, Any]) -> None:
        self._components = components
        self._nodes_left = _MOST_NODES

    def resolve(self, source: Mapping[str, Any], parents: tuple[str, ...] = ()) -> Mapping[str, Any]:
        """Return a schema without references; `parents` are those that lead to it."""
        self._nodes_left -= 1
        reference = source.get("$ref") or _single_reference(source)
        if self._nodes_left < 0 or reference in parents:
            return _ANYTHING
        if reference:
            target = self._components.get(reference.removeprefix(_REFERENCE), {})
            return self.resolve(target, (*parents, reference))
        resolved = dict(source)
        for key in ("items", "additionalProperties"):
            if isinstance(source.get(key), dict):
                resolved[key] = self.resolve(source[key], parents)
        if properties := source.get("properties"):
            resolved["properties"] = {name: self.resolve(child, parents) for name, child in properties.items()}
        return resolved


def _single_reference(source: Mapping[str, Any]) -> str:
    """Return the reference of a schema that only adds a description or a default to another one."""
    parts: Sequence[Any] = source.get("allOf") or ()
    reference: str = parts[0].get("$ref", "") if len(parts) == 1 else ""
    return reference
