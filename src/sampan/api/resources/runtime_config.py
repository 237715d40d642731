"""The versions, and their resources, that a server serves, and in which version it stores their objects.

It follows from the level, the feature gates and --runtime-config. Of the keys of --runtime-config, more specific ones
take precedence: api/all, then api/ga, api/beta and api/alpha, then group/version, then group/version/resource. `v1` and
`api/v1` are the core group.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache

from sampan.api.feature_gates import FeatureGates
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.resources.resource_table import BUILT_IN, STORED_AS, GroupVersion
from sampan.api.resources.rows import CORE_EVENT

LEVELS = {"api/ga": r"v\d+", "api/beta": r"v\d+beta\d+", "api/alpha": r"v\d+alpha\d+"}


class RuntimeConfigError(ValueError):
    """A key or value of --runtime-config is invalid."""


def parse(text: str) -> dict[str, bool]:
    """Parse `a/v1=true,b/v1` into a mapping; a key without a value means true."""
    settings = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = item.partition("=")
        settings[key] = _parse_bool(key, value)
    return settings


def _parse_bool(key: str, value: str) -> bool:
    if value.lower() in ("", "1", "t", "true"):
        return True
    if value.lower() in ("0", "f", "false"):
        return False
    raise RuntimeConfigError(f"invalid value of runtime-config key {key}: {value!r}")


def select_versions(config: Mapping[str, bool], gates: FeatureGates | None = None) -> tuple[GroupVersion, ...]:
    """Return the versions that a server with this configuration serves, with their enabled resources. Raise
    RuntimeConfigError."""
    unknown = [key for key in config if not _is_known(key)]
    if unknown:
        raise RuntimeConfigError(f"unknown runtime-config keys: {', '.join(sorted(unknown))}")
    gates = gates or FeatureGates()
    versions = (_select_resources(group_version, config, gates) for group_version in BUILT_IN)
    return tuple(group_version for group_version in versions if group_version.resources)


def _select_resources(group_version: GroupVersion, config: Mapping[str, bool], gates: FeatureGates) -> GroupVersion:
    on = config.get("api/all", _is_stable(group_version.version))
    for level, pattern in LEVELS.items():
        if re.fullmatch(pattern, group_version.version):
            on = config.get(level, on)
    for name in _names(group_version):
        on = config.get(name, on)
    resources = tuple(
        _complete(resource, gates)
        for resource in group_version.resources
        if next((config[k] for k in _resource_names(group_version, resource.plural) if k in config), on)
        and is_available(resource, gates)
    )
    return replace(group_version, resources=resources)


def is_available(resource: Resource, gates: FeatureGates) -> bool:
    """Tell whether a version of a kind exists at the level, and its feature is enabled."""
    is_current = resource.introduced <= gates.level and (resource.removed is None or gates.level < resource.removed)
    return is_current and (not resource.gate or gates.is_enabled(resource.gate))


def _complete(resource: Resource, gates: FeatureGates) -> Resource:
    """Return the resource with its storage version and the subresources whose features are enabled."""
    enabled = tuple(sub for sub in resource.subresources if not sub.gate or gates.is_enabled(sub.gate))
    return replace(resource, subresources=enabled, storage=_find_storage(resource, gates))


def _find_storage(resource: Resource, gates: FeatureGates) -> GroupVersionKind | None:
    """Return the version in which the objects of a resource are stored: one that the minimal compatibility version can
    read too, if there is one that is not alpha."""
    if resource.storage in (None, CORE_EVENT):
        return resource.storage
    versions = _versions_of(resource.group, resource.kind)
    for candidate in versions:
        if "alpha" not in candidate.version and candidate.introduced <= gates.min_compatibility_level:
            return candidate.gvk
    return next((candidate for candidate in versions if candidate.introduced <= gates.level), versions[0]).gvk


@cache
def _versions_of(group: str, kind: str) -> list[Resource]:
    """Return the versions of a kind in which it may be stored, the preferred one first."""
    group_versions = sorted(BUILT_IN, key=lambda group_version: -group_version.version_priority)
    versions = [r for gv in group_versions if gv.group == group for r in gv.resources if r.kind == kind]
    prescribed = STORED_AS.get((group, kind))
    return [version for version in versions if prescribed in (None, version.version)]


def _is_stable(version: str) -> bool:
    return re.fullmatch(LEVELS["api/ga"], version) is not None


def _names(group_version: GroupVersion) -> Iterable[str]:
    if not group_version.group:
        return ("v1", "api/v1")
    return (f"{group_version.group}/{group_version.version}",)


def _resource_names(group_version: GroupVersion, plural: str) -> Iterable[str]:
    return (f"{name}/{plural}" for name in _names(group_version))


def _is_known(key: str) -> bool:
    if key in LEVELS or key == "api/all":
        return True
    for group_version in BUILT_IN:
        names = tuple(_names(group_version))
        if key in names or any(key == f"{n}/{r.plural}" for n in names for r in group_version.resources):
            return True
    return False
