"""The resources that are currently served, their request paths, and the Python types of kinds.

A `Scheme` starts with the built-in resources that are served and changes as CustomResourceDefinitions are added and
removed. Types are imported on first use. `parse_path` does not depend on the resources.
"""

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

from sampan.api.feature_gates import FeatureGates
from sampan.api.resources import runtime_config
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.resources.resource_table import GroupVersion
from sampan.api.resources.rows import version_rank
from sampan.api.types.base import Struct

NAMESPACE_SUBRESOURCES = ("status", "finalize")
PROXIED = {2: ("nodes",), 4: ("pods", "services")}
"""The resources of legacy proxy paths, by the number of path segments that identify the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcePath:
    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()
    """The segments after the subresource: the path for a proxy."""
    watch: bool = False
    """Whether the path is the legacy form of a watch, /api/v1/watch/…"""
    in_namespace: bool = False
    """Whether the path contains namespaces/NAME/, even with an empty name."""


def parse_path(path: str) -> ResourcePath | None:
    """Return the parts of a decoded path below /api/V/ or /apis/G/V/; None for any other path."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, parts = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = parts[0] == "watch" and len(parts) > 1
    if parts[0] == "proxy" and not group:
        parts = _modern_proxy(parts[1:]) or parts
    return _parse_below_version(group, version, parts[1:] if watch else parts, watch)


def _modern_proxy(parts: list[str]) -> list[str]:
    """Return the legacy paths proxy/nodes/NAME/… and proxy/namespaces/NS/KIND/NAME/… in their current form, with proxy
    as a subresource. Return an empty list if they are invalid."""
    own = 4 if parts[:1] == ["namespaces"] else 2
    if len(parts) < own or not all(parts[:own]) or parts[own - 2] not in PROXIED[own]:
        return []
    return [*parts[:own], "proxy", *parts[own:]]


def _parse_below_version(group: str, version: str, parts: list[str], watch: bool) -> ResourcePath:
    namespace, in_namespace = "", False
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in NAMESPACE_SUBRESOURCES:
            parts, in_namespace = parts[2:], True
    return ResourcePath(
        group=group,
        version=version,
        plural=parts[0],
        namespace=namespace,
        name=parts[1] if len(parts) > 1 else "",
        subresource=parts[2] if len(parts) > 2 else "",
        rest=tuple(parts[3:]),
        watch=watch,
        in_namespace=in_namespace,
    )


MODULES = {
    "": "core",
    "internal.apiserver.k8s.io": "apiserverinternal",
}
"""Groups whose module is not named after the first label of the group."""
META_KINDS = {
    *("APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "List", "Status", "WatchEvent"),
    *("CreateOptions", "DeleteOptions", "GetOptions", "ListOptions", "PatchOptions", "UpdateOptions"),
}
"""Kinds that every group has, or that have apiVersion v1 without being part of the core group."""
CUSTOM_GROUP_PRIORITY = 1000
CUSTOM_VERSION_PRIORITY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    resource: Resource
    path: ResourcePath


class Scheme:
    def __init__(self, group_versions: Iterable[GroupVersion] = ()) -> None:
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._kinds: dict[tuple[str, str, str], Resource] = {}
        self._groups: dict[str, dict[str, dict[str, Resource]]] = {}
        """The resources by group, version and plural."""
        self._stored: dict[str, list[Resource]] = {}
        """The stored resources by storage prefix."""
        self._group_generations: dict[str, int] = {}
        self._group_priority: dict[str, int] = {}
        self._version_priority: dict[tuple[str, str], int] = {}
        self.generation = 0
        """Incremented with every change, so that data derived from the resources can detect that it is out of date."""
        self._listeners: list[Callable[[], None]] = []
        for group_version in group_versions:
            self._group_priority[group_version.group] = group_version.group_priority
            self._version_priority[group_version.group, group_version.version] = group_version.version_priority
            for resource in group_version.resources:
                self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a resource, replacing one with the same group, version and plural."""
        self.remove(resource)
        self._resources[resource.group, resource.version, resource.plural] = resource
        self._kinds[resource.group, resource.version, resource.kind] = resource
        self._groups.setdefault(resource.group, {}).setdefault(resource.version, {})[resource.plural] = resource
        if resource.storage:
            self._stored.setdefault(resource.storage_prefix, []).append(resource)
        self._announce_change(resource.group)

    @contextmanager
    def on_change(self, notify: Callable[[], None]) -> Iterator[None]:
        """Call a function after every change for the duration of the block."""
        self._listeners.append(notify)
        try:
            yield
        finally:
            self._listeners.remove(notify)

    def _announce_change(self, group: str) -> None:
        self.generation += 1
        self._group_generations[group] = self.generation
        for notify in self._listeners:
            notify()

    def remove(self, resource: Resource) -> None:
        """Stop serving the resource with this group, version and plural, if there is one."""
        removed = self._resources.pop((resource.group, resource.version, resource.plural), None)
        if removed is None:
            return
        del self._kinds[removed.group, removed.version, removed.kind]
        versions = self._groups[removed.group]
        del versions[removed.version][removed.plural]
        if not versions[removed.version]:
            del versions[removed.version]
        if not versions:
            del self._groups[removed.group]
        if removed.storage:
            self._stored[removed.storage_prefix].remove(removed)
            if not self._stored[removed.storage_prefix]:
                del self._stored[removed.storage_prefix]
        self._announce_change(removed.group)

    def resource(self, group: str, version: str, plural: str) -> Resource | None:
        return self._resources.get((group, version, plural))

    def find_by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        return self._kinds.get((group, version, kind))

    def resources(self, group: str, version: str) -> list[Resource]:
        """Return the resources of a group version, sorted by name."""
        resources = self._groups.get(group, {}).get(version, {})
        return [resources[plural] for plural in sorted(resources)]

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._resources.values()))

    def groups(self) -> list[str]:
        """Return the groups by priority, the core group first."""
        return sorted(self._groups, key=lambda group: (group != "", -self.group_priority(group), group))

    def versions(self, group: str) -> list[str]:
        """Return the versions of a group in order of preference."""
        versions = self._groups.get(group, {})
        return sorted(versions, key=lambda version: (-self.version_priority(group, version), *version_rank(version)))

    def has_group(self, group: str) -> bool:
        return group in self._groups

    def is_custom_group(self, group: str) -> bool:
        """Whether the group has custom resources."""
        versions = self._groups.get(group, {}).values()
        return any(resource.is_custom for resources in versions for resource in resources.values())

    def group_generation(self, group: str) -> int:
        """Return the generation of the last change of the group's resources; 0 if it never had any."""
        return self._group_generations.get(group, 0)

    def group_priority(self, group: str) -> int:
        return self._group_priority.get(group, CUSTOM_GROUP_PRIORITY)

    def version_priority(self, group: str, version: str) -> int:
        return self._version_priority.get((group, version), CUSTOM_VERSION_PRIORITY)

    def equivalent_resources(self, resource: Resource) -> list[Resource]:
        """Return the resources that share their stored objects with this one, including itself: other versions of it,
        and Events in both groups."""
        if resource.storage is None:
            return [resource]
        return list(self._stored.get(resource.storage_prefix, ()))

    def resolve(self, path: str) -> Route | None:
        """Return the resource of a decoded path; None if there is none, or the path does not match its scope or
        subresources."""
        parsed = parse_path(path)
        if parsed is None:
            return None
        resource = self.resource(parsed.group, parsed.version, parsed.plural)
        if resource is None or not _fits(resource, parsed):
            return None
        return Route(resource=resource, path=parsed)

    def type_of(self, resource: Resource) -> type[Struct] | None:
        """Return the type of its objects; None for a custom resource, whose objects are dicts."""
        return None if resource.is_custom else type_for(resource.gvk)


def _fits(resource: Resource, path: ResourcePath) -> bool:
    if path.subresource and resource.subresource(path.subresource) is None:
        return False
    if not resource.namespaced:
        return not path.in_namespace
    return path.in_namespace or not path.name


@cache
def type_for(gvk: GroupVersionKind) -> type[Struct] | None:
    """Return the generated type of a kind, or None if there is none."""
    if gvk.kind in META_KINDS:
        return _lookup("meta_v1", gvk.kind)
    if gvk.group == "meta.k8s.io":  # both versions of this group have the same types
        return _lookup("meta_v1", gvk.kind)
    group = MODULES.get(gvk.group) or gvk.group.split(".")[0]
    struct = _lookup(f"{group}_{gvk.version}", gvk.kind)
    return struct if struct is not None and _is_registered(struct, gvk) else None


def _lookup(module: str, name: str) -> type[Struct] | None:
    if not re.fullmatch(r"[a-z]+_v\d\w*", module):
        return None
    try:
        loaded = importlib.import_module(f"sampan.api.types.{module}")
    except ModuleNotFoundError:
        return None
    struct = getattr(loaded, name, None)
    return struct if isinstance(struct, type) and issubclass(struct, Struct) else None


def _is_registered(type_: type[Struct], gvk: GroupVersionKind) -> bool:
    """Whether objects of the type have this apiVersion and kind: `apps.example.com` is not `apps`."""
    empty = type_()
    return getattr(empty, "apiVersion", "") == gvk.api_version and getattr(empty, "kind", "") == gvk.kind


def builtin_scheme(config: Mapping[str, bool] | None = None, gates: FeatureGates | None = None) -> Scheme:
    """Return the resources of a server with this --runtime-config and these feature gates."""
    return Scheme(runtime_config.select_versions(config or {}, gates))
