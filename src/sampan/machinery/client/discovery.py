"""Discovery of the resources that a server offers."""

from collections.abc import Iterable, Mapping
from typing import Any

from sampan.api.codec import json
from sampan.api.resource import GroupVersionKind, Resource, Subresource
from sampan.machinery import errors
from sampan.machinery.client.client import Client
from sampan.machinery.client.transport import ConnectionFailed, Request

_ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
_CURRENT = ("", "Current")


class Discovery:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def preferred(self) -> tuple[list[Resource], str]:
        """Return each resource once, in its group's preferred version that has it, and an error message for the groups
        that failed (empty if none did)."""
        resources, failure = await self.served()
        return first_of_each(resources), failure

    async def served(self) -> tuple[list[Resource], str]:
        """Return each resource in every version, its group's preferred one first, and an error message for the groups
        that failed."""
        resources: list[Resource] = []
        failures: list[str] = []
        for path in ("/api", "/apis"):
            try:
                document = await self._get(path)
            except (errors.ApiError, ConnectionFailed) as failure:
                failures.append(f"{path}: {failure}")
                continue
            if document.get("kind") == "APIGroupDiscoveryList":
                resources += served_of(document, failures)
            else:
                resources += await self._old_way(document, failures)
        return resources, f"Discovery failed for some groups, {len(failures)} failing: {'; '.join(failures)}" if (
            failures
        ) else ""

    async def storage_version_hash(self, resource: Resource) -> str:
        """Return the hash of the storage version in which the server stores a resource; empty if it tells none. Raise
        NotFound if its version is not served."""
        path = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
        rows = (await self._get(path)).get("resources") or ()
        return next((row.get("storageVersionHash") or "" for row in rows if row["name"] == resource.plural), "")

    async def _get(self, path: str) -> Mapping[str, Any]:
        response = await self._client.send(Request(method="GET", path=path, headers={"Accept": _ACCEPT}))
        document: Mapping[str, Any] = json.read_any(response.body())
        return document

    async def _old_way(self, document: Mapping[str, Any], failures: list[str]) -> list[Resource]:
        """Discover with one request per version, for servers without aggregated discovery."""
        resources: list[Resource] = []
        for prefix, group, version in _versions(document):
            try:
                listed = await self._get(f"{prefix}/{version}")
            except (errors.ApiError, ConnectionFailed) as failure:
                failures.append(f"{group}/{version}: {failure}".lstrip("/"))
                continue
            rows = listed.get("resources") or ()
            resources += (_old_row(row, group, version, rows) for row in rows if "/" not in row["name"])
        return resources


def first_of_each(resources: Iterable[Resource]) -> list[Resource]:
    """Return the first version of each resource."""
    first: dict[tuple[str, str], Resource] = {}
    for row in resources:
        first.setdefault((row.group, row.plural), row)
    return list(first.values())


def served_of(document: Mapping[str, Any], failures: list[str]) -> list[Resource]:
    """Return the resources in an APIGroupDiscoveryList; stale versions are added to `failures`."""
    resources: list[Resource] = []
    for group in document.get("items") or ():
        name = group.get("metadata", {}).get("name", "")
        for version in group.get("versions") or ():
            if version.get("freshness", "") not in _CURRENT:
                failures.append(f"{name}/{version['version']}: stale GroupVersion discovery".lstrip("/"))
            resources += (_row(row, name, version["version"]) for row in version.get("resources") or ())
    return resources


def _row(row: Mapping[str, Any], group: str, version: str) -> Resource:
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
        subresources=tuple(_subresource(part) for part in row.get("subresources") or ()),
    )


def _subresource(row: Mapping[str, Any]) -> Subresource:
    shown = row.get("responseKind") or {}
    kind = GroupVersionKind(group=shown.get("group", ""), version=shown.get("version", ""), kind=shown.get("kind", ""))
    return Subresource(name=row["subresource"], verbs=tuple(row.get("verbs") or ()), kind=kind)


def _old_row(row: Mapping[str, Any], group: str, version: str, rows: Iterable[Mapping[str, Any]]) -> Resource:
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
            _subresource({"subresource": name, "responseKind": part, "verbs": part.get("verbs")})
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
