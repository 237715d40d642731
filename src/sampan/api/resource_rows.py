"""Rows of the resource table, and their completion by group and version."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sampan.api.resource import STANDARD_VERBS, GroupVersionKind, Resource, SelectableField, Subresource

CHANGE = ("get", "patch", "update")
CORE_EVENT = GroupVersionKind(group="", version="v1", kind="Event")
"""The storage version of the Events of both groups."""

SPECIAL_PREFIXES = {
    "": {
        "replicationcontrollers": "/registry/controllers",
        "endpoints": "/registry/services/endpoints",
        "nodes": "/registry/minions",
        "services": "/registry/services/specs",
    },
    "networking.k8s.io": {"ingresses": "/registry/ingress"},
    "apiregistration.k8s.io": {"apiservices": "/registry/apiregistration.k8s.io/apiservices"},
    "apiextensions.k8s.io": {
        "customresourcedefinitions": "/registry/apiextensions.k8s.io/customresourcedefinitions",
    },
}
"""Storage prefixes that do not follow from the plural name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVersion:
    """A version of a group: its resources sorted by name, and its priority in discovery."""

    group: str
    version: str
    group_priority: int
    """Groups are sorted by descending priority, then by name."""
    version_priority: int
    resources: tuple[Resource, ...]


def row(
    kind: str,
    plural: str = "",
    *,
    short: str = "",
    category: str = "",
    cluster: bool = False,
    verbs: Iterable[str] = STANDARD_VERBS,
    subs: Iterable[Subresource] = (),
    select: Iterable[SelectableField] = (),
    stored: bool | str | GroupVersionKind = True,
    advertised: str = "",
) -> Resource:
    """Return a resource without its group and version, which `served_at` fills in. `stored` may name another
    version."""
    verbs = tuple(verbs)
    stored = stored if "get" in verbs else False
    return Resource(
        group="",
        version="",
        kind=kind,
        plural=plural or kind.lower() + "s",
        singular=kind.lower(),
        namespaced=not cluster,
        short_names=tuple(short.split()),
        categories=tuple(category.split()),
        verbs=verbs,
        subresources=tuple(_with_kind(s, kind) for s in subs),
        selectable=tuple(select),
        storage=_storage(kind, stored),
        advertised_storage=_storage(kind, advertised),
    )


def _storage(kind: str, stored: bool | str | GroupVersionKind) -> GroupVersionKind | None:
    if isinstance(stored, GroupVersionKind):
        return stored
    if not stored:
        return None
    return GroupVersionKind(group="", version="" if stored is True else stored, kind=kind)


def _with_kind(one: Subresource, kind: str) -> Subresource:
    return replace(one, kind=one.kind or kind)


def sub(name: str, verbs: tuple[str, ...] = CHANGE, kind: GroupVersionKind | str = "") -> Subresource:
    """Return a subresource; without a kind it reads and writes the resource itself."""
    return Subresource(name=name, verbs=verbs, kind=kind)


def field(label: str, *paths: str, default: str = "") -> SelectableField:
    return SelectableField(label=label, paths=paths or (label,), default=default)


def served_at(group: str, version: str, priority: tuple[int, int], *rows: Resource) -> GroupVersion:
    return GroupVersion(
        group=group,
        version=version,
        group_priority=priority[0],
        version_priority=priority[1],
        resources=tuple(_placed(group, version, row) for row in rows),
    )


def _placed(group: str, version: str, row: Resource) -> Resource:
    placed = replace(row, group=group, version=version)
    if row.storage is None:
        return placed
    storage, prefix = row.storage, SPECIAL_PREFIXES.get(group, {}).get(row.plural, f"/registry/{row.plural}")
    if storage is not CORE_EVENT:
        storage = replace(storage, group=group, version=storage.version or version)
    advertised = row.advertised_storage and replace(row.advertised_storage, group=group)
    return replace(placed, storage=storage, storage_prefix=prefix, advertised_storage=advertised)
