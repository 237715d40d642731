"""Rows of the resource table, and their completion by group and version."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from sampan.api.resources.resource import STANDARD_VERBS, GroupVersionKind, Resource, SelectableField, Subresource

CHANGE = ("get", "patch", "update")
CORE_EVENT = GroupVersionKind(group="", version="v1", kind="Event")
"""The storage version of the Events of both groups."""


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
    stored: bool | GroupVersionKind = True,
    storage_path: str = "",
    advertised: str = "",
    since: int = 0,
    until: int | None = None,
    gate: str = "",
) -> Resource:
    """Return a resource without its group and version, which `declare_version` fills in.

    `storage_path` is the path of its keys below /registry, by default the plural. `since` and `until` are the minor
    versions in which it was introduced and removed. `gate` also applies to the subresources.
    """
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
        storage_prefix=f"/registry/{storage_path or plural or kind.lower() + 's'}" if stored else "",
        advertised_storage=GroupVersionKind(group="", version=advertised, kind=kind) if advertised else None,
        introduced=since,
        removed=until,
        gate=gate,
    )


def _storage(kind: str, stored: bool | GroupVersionKind) -> GroupVersionKind | None:
    if isinstance(stored, GroupVersionKind):
        return stored
    return GroupVersionKind(group="", version="", kind=kind) if stored else None


def _with_kind(subresource: Subresource, kind: str) -> Subresource:
    return replace(subresource, kind=subresource.kind or kind)


def sub(
    name: str, verbs: tuple[str, ...] = CHANGE, kind: GroupVersionKind | str = "", *, gate: str = ""
) -> Subresource:
    """Return a subresource; without a kind it reads and writes the resource itself."""
    return Subresource(name=name, verbs=verbs, kind=kind, gate=gate)


def field(label: str, *paths: str, default: str = "") -> SelectableField:
    return SelectableField(label=label, paths=paths or (label,), default=default)


def declare_version(group: str, version: str, priority: tuple[int, int], *rows: Resource) -> GroupVersion:
    return GroupVersion(
        group=group,
        version=version,
        group_priority=priority[0],
        version_priority=priority[1],
        resources=tuple(_complete(group, version, row) for row in rows),
    )


def _complete(group: str, version: str, row: Resource) -> Resource:
    """Return the row with its group and version, also in the storage version."""
    storage, advertised = row.storage, row.advertised_storage
    if storage is not None and storage is not CORE_EVENT:
        storage = replace(storage, group=group, version=version)
    if advertised is not None:
        advertised = replace(advertised, group=group)
    return replace(row, group=group, version=version, storage=storage, advertised_storage=advertised)


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Return a sort key that orders v2 before v1 before v2beta1 before v1alpha1 before other names."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), version)
