"""Lookup of a built-in resource by its type or name, and the request path of an object."""

from functools import cache
from typing import Any

from sampan.api.resource import Resource
from sampan.api.resources import OPTIONAL, SERVED


@cache
def _rows() -> dict[tuple[str, str], list[Resource]]:
    """Return the built-in resources by group and plural, the preferred version first."""
    resources: dict[tuple[str, str], list[Resource]] = {}
    versions = sorted((*SERVED, *OPTIONAL), key=lambda version: -version.version_priority)
    for version in versions:
        for row in version.resources:
            resources.setdefault((row.group, row.plural), []).append(row)
    return resources


@cache
def builtin(plural: str, group: str = "", version: str = "") -> Resource:
    """Return a built-in resource, in the preferred version unless one is named. Raise LookupError."""
    for row in _rows().get((group, plural), ()):
        if version in ("", row.version):
            return row
    raise LookupError(f"there is no built-in resource {plural!r} in group {group!r} {version}".rstrip())


_by_type: dict[object, Resource] = {}


def resource_of(type: type[Any]) -> Resource:
    """Return the resource whose objects have this generated type. Raise LookupError."""
    resource = _by_type.get(type)
    if resource is None:
        resource = _by_type[type] = _resource_of(type())
    return resource


def _resource_of(empty: Any) -> Resource:
    for rows in _rows().values():
        for row in rows:
            if (row.api_version, row.kind) == (empty.apiVersion, empty.kind):
                return row
    raise LookupError(f"{empty.kind} of {empty.apiVersion} is no resource")


def path_of(resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
    prefix = f"/apis/{resource.group}" if resource.group else "/api"
    namespace_part = f"/namespaces/{namespace}" if namespace and resource.namespaced else ""
    name_part = f"/{name}" if name else ""
    subresource_part = f"/{subresource}" if subresource else ""
    return f"{prefix}/{resource.version}{namespace_part}/{resource.plural}{name_part}{subresource_part}"
