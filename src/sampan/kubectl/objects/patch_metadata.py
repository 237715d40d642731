"""The patch metadata of a kind, from the server's OpenAPI v3 document or from the built-in types.

The counterparts are `PatchMetaFromOpenAPIV3` and `PatchMetaFromStruct` in `apimachinery/pkg/util/strategicpatch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sampan.api.schema.tree import ANY, Schema, from_openapi
from sampan.kubectl.objects.targets import ResourceInfo

_STRATEGIC = "application/strategic-merge-patch+json"
_KIND = "x-kubernetes-group-version-kind"


def built_in_schema(api_version: str, kind: str) -> Schema | None:
    """Return the schema of a kind of Kubernetes itself, or None for any other kind."""
    from sampan.api.resources.resource import GroupVersionKind
    from sampan.api.schema import schemas
    from sampan.api.scheme import type_for

    group, _, version = api_version.rpartition("/")
    model = type_for(GroupVersionKind(group=group, version=version, kind=kind))
    return schemas.schema_of(model) if model is not None else None


def strategic_patch(info: ResourceInfo, after: dict[str, Any]) -> dict[str, Any]:
    """Return the strategic merge patch from an object to its changed value."""
    from sampan.machinery import patch

    schema = built_in_schema(info.kind.api_version, info.kind.kind)
    return patch.strategic_diff(info.value, after, schema if schema is not None else ANY)


def schema_of_document(document: Mapping[str, Any], api_version: str, kind: str) -> Schema | None:
    """Return the schema of a kind from the OpenAPI v3 document of its group and version. Return None if the document
    does not say that the kind accepts strategic merge patches."""
    group, _, version = api_version.rpartition("/")
    identity = {"group": group, "version": version, "kind": kind}
    if not any(_accepts_strategic(path, identity) for path in (document.get("paths") or {}).values()):
        return None
    components = (document.get("components") or {}).get("schemas") or {}
    for name, source in components.items():
        if identity in (source.get(_KIND) or ()):
            return _Definitions(components).schema(name)
    return None


def _accepts_strategic(path: Mapping[str, Any], identity: Mapping[str, str]) -> bool:
    operation = path.get("patch") or {}
    content = (operation.get("requestBody") or {}).get("content") or {}
    return operation.get(_KIND) == identity and _STRATEGIC in content


class _Definitions:
    """Schemas of the definitions in a document. A definition may refer to itself."""

    def __init__(self, components: Mapping[str, Any]) -> None:
        self._components = components
        self._schemas: dict[str, Schema] = {}

    def schema(self, name: str) -> Schema:
        if name in self._schemas:
            return self._schemas[name]
        source = self._components.get(name)
        if source is None:
            return ANY
        node = self._schemas[name] = _build_shallow_schema(source)
        self._fill(node, source)
        return node

    def _fill(self, node: Schema, source: Mapping[str, Any]) -> None:
        node.properties = {field: self._field(part) for field, part in (source.get("properties") or {}).items()}
        if isinstance(source.get("additionalProperties"), Mapping):
            node.additional = self._field(source["additionalProperties"])
        if isinstance(source.get("items"), Mapping):
            node.items = self._field(source["items"])

    def _field(self, source: Mapping[str, Any]) -> Schema:
        """Return the schema of a field: its inline schema, or the referenced one with the patch strategy of the
        field."""
        node = _build_shallow_schema(source)
        reference = _reference(source)
        if reference is None:
            self._fill(node, source)
            return node
        target = self.schema(reference)
        if not (node.patch_strategy or node.patch_key):
            return target
        node.type, node.additional, node.items = target.type, target.additional, target.items
        node.properties = target.properties or node.properties
        return node


def _build_shallow_schema(source: Mapping[str, Any]) -> Schema:
    nested = ("properties", "items", "additionalProperties", "allOf", "default")
    return from_openapi({key: part for key, part in source.items() if key not in nested})


def _reference(source: Mapping[str, Any]) -> str | None:
    for part in (source, *(source.get("allOf") or ())):
        if isinstance(part.get("$ref"), str):
            return str(part["$ref"]).rpartition("/")[2]
    return None
