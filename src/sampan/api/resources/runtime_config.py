"""The versions, and their resources, that a server serves, and in which version it stores their objects.

It follows from the level, the feature gates and --runtime-config. Of the keys of --runtime-config, more specific ones
take precedence: api/all, then api/ga, api/beta and api/alpha, then group/version, then group/version/resource. `v1` and
`api/v1` are the core group.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from sampan.api.feature_gates import FeatureGates
from sampan.api.kubernetes_version import MAJOR
from sampan.api.resources.resource import GroupVersionKind, Resource
from sampan.api.resources.resource_table import BUILT_IN, STORED_AS, GroupVersion
from sampan.api.resources.rows import CORE_EVENT, version_rank

STAGES = {"api/ga": r"v\d+", "api/beta": r"v\d+beta\d+", "api/alpha": r"v\d+alpha\d+"}


_ADVICE = "Consider setting --runtime-config-emulation-forward-compatible=true"


class RuntimeConfigError(ValueError):
    """A key or value of --runtime-config is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardCompatibility:
    """Which API versions a server at an older level serves although that level did not have them."""

    versions: bool = False
    """Stable and beta versions that are newer than an enabled one (--emulation-forward-compatible)."""
    runtime_config: bool = False
    """Those that --runtime-config enables by name (--runtime-config-emulation-forward-compatible)."""


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
    if key in STAGES or key == "api/all":
        raise RuntimeConfigError(f"invalid value {key}={value}")
    raise RuntimeConfigError(
        f'invalid value of {key}: {value}, err: strconv.ParseBool: parsing "{value}": invalid syntax'
    )


def select_versions(
    config: Mapping[str, bool],
    gates: FeatureGates | None = None,
    forward: ForwardCompatibility | None = None,
) -> tuple[GroupVersion, ...]:
    """Return the versions that a server with this configuration serves, with their enabled resources. Raise
    RuntimeConfigError."""
    for key in sorted(config):
        _check_key(key)
    selection = _Selection(config, gates or FeatureGates(), forward or ForwardCompatibility())
    selected = {(gv.group, gv.version): selection.resources(gv) for gv in _by_age()}
    versions = (replace(gv, resources=selected[gv.group, gv.version]) for gv in BUILT_IN)
    return tuple(group_version for group_version in versions if group_version.resources)


@cache
def _by_age() -> tuple[GroupVersion, ...]:
    """Return all versions, the older ones of a group before the newer ones."""
    return tuple(sorted(BUILT_IN, key=lambda group_version: version_rank(group_version.version), reverse=True))


class _Selection:
    """The selection of resources, which takes the older versions of a group first."""

    def __init__(self, config: Mapping[str, bool], gates: FeatureGates, forward: ForwardCompatibility) -> None:
        self._config, self._gates, self._forward = config, gates, forward
        self._served: set[tuple[str, str]] = set()
        """The resources that are served in a version that is not alpha, by group and plural."""

    def resources(self, group_version: GroupVersion) -> tuple[Resource, ...]:
        enabled = [r for r in group_version.resources if self._is_enabled(group_version, r) and self._has_feature(r)]
        served = tuple(resource for resource in enabled if self._is_introduced(group_version, resource))
        if enabled and not served and self._is_named(_names(group_version)):
            raise RuntimeConfigError(
                f"cannot enable version {group_version.group}/{group_version.version} in runtime-config because all "
                f"the resources have been introduced after the current version {MAJOR}.{self._gates.level}. {_ADVICE}"
            )
        if not _is_alpha(group_version.version):
            self._served |= {(resource.group, resource.plural) for resource in served}
        return tuple(_complete(resource, self._gates) for resource in served)

    def _is_enabled(self, group_version: GroupVersion, resource: Resource) -> bool:
        config = self._config
        on = config.get("api/all", re.fullmatch(STAGES["api/ga"], group_version.version) is not None)
        for stage, pattern in STAGES.items():
            if re.fullmatch(pattern, group_version.version):
                on = config.get(stage, on)
        is_older_enabled = (resource.group, resource.plural) in self._served
        on = on or (self._forward.versions and is_older_enabled and not _is_alpha(group_version.version))
        for name in (*_names(group_version), *_resource_names(group_version, resource.plural)):
            on = config.get(name, on)
        return on

    def _has_feature(self, resource: Resource) -> bool:
        is_removed = resource.removed is not None and resource.removed <= self._gates.level
        return not is_removed and (not resource.gate or self._gates.is_enabled(resource.gate))

    def _is_introduced(self, group_version: GroupVersion, resource: Resource) -> bool:
        if resource.introduced <= self._gates.level:
            return True
        if self._forward.versions and (resource.group, resource.plural) in self._served:
            return True
        names = tuple(_resource_names(group_version, resource.plural))
        if self._forward.runtime_config:
            return self._is_named((*_names(group_version), *names))
        if self._is_named(names):
            raise RuntimeConfigError(
                f"cannot enable resource {resource.group}/{resource.version}, Resource={resource.plural} in "
                f"runtime-config because it is introduced at {MAJOR}.{resource.introduced} after the current version "
                f"{MAJOR}.{self._gates.level}. {_ADVICE}"
            )
        return False

    def _is_named(self, names: Iterable[str]) -> bool:
        """Tell whether --runtime-config enables one of these names explicitly."""
        return any(self._config.get(name, False) for name in names)


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


def _is_alpha(version: str) -> bool:
    return re.fullmatch(STAGES["api/alpha"], version) is not None


def _names(group_version: GroupVersion) -> Iterable[str]:
    if not group_version.group:
        return ("v1", "api/v1")
    return (f"{group_version.group}/{group_version.version}",)


def _resource_names(group_version: GroupVersion, plural: str) -> Iterable[str]:
    return (f"{name}/{plural}" for name in _names(group_version))


def _check_key(key: str) -> None:
    """Raise RuntimeConfigError for a key that names no stage, version or resource."""
    if key in STAGES or key in ("api/all", "api/legacy"):
        return
    names = {name: group_version for group_version in BUILT_IN for name in _names(group_version)}
    group_version_name, plural = key, ""
    if key not in names and key.count("/"):
        group_version_name, _, plural = key.rpartition("/")
    if group_version_name not in names:
        parts = key.split("/")
        if not 2 <= len(parts) <= 3:
            raise RuntimeConfigError(f"runtime-config invalid key {key}")
        if parts[0] not in {group_version.group for group_version in BUILT_IN}:
            raise RuntimeConfigError(f"unknown api groups {key}")
        raise RuntimeConfigError(f"group version {parts[0]}/{parts[1]} that has not been registered")
    if plural != plural.lower():
        raise RuntimeConfigError(
            f'invalid key {key}: group/version/resource and resource is always lowercase plural, not "{plural}"'
        )
    if plural and plural not in {resource.plural for resource in names[group_version_name].resources}:
        raise RuntimeConfigError(f"unknown resource {key}")
