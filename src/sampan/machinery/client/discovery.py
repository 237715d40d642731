"""Discovery of the resources that a server offers, and of the schemas of kinds that are not built in, from the OpenAPI
v3 documents of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sampan.api.codec import json
from sampan.api.resources.resource import GroupVersionKind, Resource, Subresource
from sampan.api.schema import schemas
from sampan.api.schema.tree import Schema, from_openapi
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.machinery import errors
from sampan.machinery.client.client import Client
from sampan.machinery.client.codecs import resource_of
from sampan.machinery.client.transport import ConnectionFailed, Request

T = TypeVar("T")
_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_CURRENT = ("", "Current")

_REFERENCE = "#/components/schemas/"
_KINDS = "x-kubernetes-group-version-kind"
_MAX_SCHEMA_NODES = 50_000
"""The maximum number of nodes of a schema after its references are resolved. The references of a hostile server could
describe an endless schema."""
_ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}


class Discovery:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def discover_preferred(self) -> tuple[list[Resource], str]:
        """Return each resource once, in the most preferred version of its group that has it. Return also an error
        message about the groups that failed, empty if none did."""
        resources, failure = await self.discover_served()
        return select_first_versions(resources), failure

    async def discover_served(self) -> tuple[list[Resource], str]:
        """Return each resource in every version, the preferred version of its group first. Return also an error message
        about the groups that failed, empty if none did."""
        resources: list[Resource] = []
        failures: list[str] = []
        for path in ("/api", "/apis"):
            try:
                document = await self._get(path)
            except (errors.ApiError, ConnectionFailed) as failure:
                failures.append(f"{path}: {failure}")
                continue
            if document.get("kind") == "APIGroupDiscoveryList":
                resources += parse_discovery_list(document, failures)
            else:
                resources += await self._discover_by_version(document, failures)
        return resources, _describe_failures(failures)

    async def storage_version_hash(self, resource: Resource) -> str:
        """Return the hash of the version in which the server stores a resource; empty if the server publishes none.
        Raise NotFound if the version of `resource` is not served."""
        path = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        rows = (await self._get(path)).get("resources") or ()
        return next((row.get("storageVersionHash") or "" for row in rows if row["name"] == resource.plural), "")

    async def select_served(self, kinds: Sequence[type[T]]) -> type[T] | None:
        """Return the first of the kinds that the server serves, such as the versions of a kind, the best one first."""
        for kind in kinds:
            resource = resource_of(kind)
            try:
                rows = (await self._get(f"/apis/{resource.api_version}")).get("resources") or ()
            except errors.NotFound:
                continue
            if any(row["name"] == resource.plural for row in rows):
                return kind
        return None

    async def _get(self, path: str) -> Mapping[str, Any]:
        response = await self._client.send(Request(method="GET", path=path, headers={"Accept": _ACCEPT}))
        document: Mapping[str, Any] = json.read_any(response.body())
        return document

    async def _discover_by_version(self, document: Mapping[str, Any], failures: list[str]) -> list[Resource]:
        """Return the resources, read with one request per version, for servers without aggregated discovery."""
        resources: list[Resource] = []
        for prefix, group, version in _versions(document):
            try:
                listed = await self._get(f"{prefix}/{version}")
            except (errors.ApiError, ConnectionFailed) as failure:
                failures.append(f"{group}/{version}: {failure}".lstrip("/"))
                continue
            rows = listed.get("resources") or ()
            resources += (
                _parse_unaggregated_resource(row, group, version, rows) for row in rows if "/" not in row["name"]
            )
        return resources


def _describe_failures(failures: Sequence[str]) -> str:
    """Return the message about groups that failed, as in the condition of a terminating namespace."""
    if not failures:
        return ""
    text = f"unable to retrieve the complete list of server APIs: {', '.join(sorted(failures))}"
    return f"Discovery failed for some groups, {len(failures)} failing: {text}"


def select_first_versions(resources: Iterable[Resource]) -> list[Resource]:
    """Return each resource once, in the version that comes first."""
    first: dict[tuple[str, str], Resource] = {}
    for row in resources:
        first.setdefault((row.group, row.plural), row)
    return list(first.values())


def parse_discovery_list(document: Mapping[str, Any], failures: list[str]) -> list[Resource]:
    """Return the resources in an APIGroupDiscoveryList; stale versions are added to `failures`."""
    resources: list[Resource] = []
    for group in document.get("items") or ():
        name = group.get("metadata", {}).get("name", "")
        for version in group.get("versions") or ():
            if version.get("freshness", "") not in _CURRENT:
                stale = f"{name}/{version['version']}".lstrip("/")
                failures.append(f"{stale}: stale GroupVersion discovery: {stale}")
            resources += (_parse_resource(row, name, version["version"]) for row in version.get("resources") or ())
    return resources


def _parse_resource(row: Mapping[str, Any], group: str, version: str) -> Resource:
    return Resource(
        group=group,
        version=version,
        kind=row.get("responseKind", {}).get("kind", ""),
        plural=row["resource"],
        singular=row.get("singularResource", ""),
        namespaced=row.get("scope") == "Namespaced",
        short_names=tuple(row.get("shortNames") or ()),
        categories=tuple(row.get("categories") or ()),
        verbs=tuple(row.get("verbs") or ()),
        subresources=tuple(_parse_subresource(part) for part in row.get("subresources") or ()),
    )


def _parse_subresource(row: Mapping[str, Any]) -> Subresource:
    shown = row.get("responseKind") or {}
    kind = GroupVersionKind(group=shown.get("group", ""), version=shown.get("version", ""), kind=shown.get("kind", ""))
    return Subresource(name=row["subresource"], verbs=tuple(row.get("verbs") or ()), kind=kind)


def _parse_unaggregated_resource(
    row: Mapping[str, Any], group: str, version: str, rows: Iterable[Mapping[str, Any]]
) -> Resource:
    parts = {part["name"].partition("/")[2]: part for part in rows if part["name"].startswith(row["name"] + "/")}
    return Resource(
        group=group,
        version=version,
        kind=row.get("kind", ""),
        plural=row["name"],
        singular=row.get("singularName", ""),
        namespaced=bool(row.get("namespaced")),
        short_names=tuple(row.get("shortNames") or ()),
        categories=tuple(row.get("categories") or ()),
        verbs=tuple(row.get("verbs") or ()),
        subresources=tuple(
            _parse_subresource({"subresource": name, "responseKind": part, "verbs": part.get("verbs")})
            for name, part in parts.items()
        ),
    )


def _versions(document: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Yield the path prefix, group and version of each version, preferred ones first."""
    for version in document.get("versions") or ():
        yield "/api", "", version
    for group in document.get("groups") or ():
        preferred = group.get("preferredVersion", {}).get("version", "")
        names = [version["version"] for version in group.get("versions") or ()]
        for version in sorted(names, key=lambda name: name != preferred):
            yield f"/apis/{group['name']}", group["name"], version


async def fetch_kind_schemas(client: Client, group: str, version: str) -> dict[GroupVersionKind, Schema]:
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
                schema = from_openapi(_ReferenceResolver(components).resolve(source))
                schema.properties = {**schema.properties, "metadata": schemas.schema_of(ObjectMeta)}
                published[kind] = schema
    return published


class _ReferenceResolver:
    """Replaces references by the schemas that they refer to. A schema that contains itself, and every part beyond
    `_MAX_SCHEMA_NODES` nodes, is replaced by a schema that accepts everything."""

    def __init__(self, components: Mapping[str, Any]) -> None:
        self._components = components
        self._nodes_left = _MAX_SCHEMA_NODES

    def resolve(self, source: Mapping[str, Any], parents: tuple[str, ...] = ()) -> Mapping[str, Any]:
        """Return a schema without references; `parents` are the references that lead to it."""
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
    """Return the reference in a schema that only adds a description or a default to another schema; empty if it is not
    such a schema."""
    parts: Sequence[Any] = source.get("allOf") or ()
    reference: str = parts[0].get("$ref", "") if len(parts) == 1 else ""
    return reference
