"""--runtime-config: the versions, and their resources, that a server serves.

More specific keys take precedence: api/all, then api/ga, api/beta and api/alpha, then group/version, then
group/version/resource. `v1` and `api/v1` are the core group.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sampan.api.resources.resource_table import OPTIONAL, SERVED, GroupVersion

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


def select_versions(config: Mapping[str, bool]) -> tuple[GroupVersion, ...]:
    """Return the versions that a server with this configuration serves, with their enabled resources. Raise
    RuntimeConfigError."""
    unknown = [key for key in config if not _is_known(key)]
    if unknown:
        raise RuntimeConfigError(f"unknown runtime-config keys: {', '.join(sorted(unknown))}")
    chosen = (_choose(group_version, group_version in SERVED, config) for group_version in (*SERVED, *OPTIONAL))
    return tuple(group_version for group_version in chosen if group_version.resources)


def _choose(group_version: GroupVersion, default: bool, config: Mapping[str, bool]) -> GroupVersion:
    on = config.get("api/all", default)
    for level, pattern in LEVELS.items():
        if re.fullmatch(pattern, group_version.version):
            on = config.get(level, on)
    for name in _names(group_version):
        on = config.get(name, on)
    resources = tuple(
        resource
        for resource in group_version.resources
        if next((config[k] for k in _resource_names(group_version, resource.plural) if k in config), on)
    )
    return replace(group_version, resources=resources)


def _names(group_version: GroupVersion) -> Iterable[str]:
    if not group_version.group:
        return ("v1", "api/v1")
    return (f"{group_version.group}/{group_version.version}",)


def _resource_names(group_version: GroupVersion, plural: str) -> Iterable[str]:
    return (f"{name}/{plural}" for name in _names(group_version))


def _is_known(key: str) -> bool:
    if key in LEVELS or key == "api/all":
        return True
    for group_version in (*SERVED, *OPTIONAL):
        names = tuple(_names(group_version))
        if key in names or any(key == f"{n}/{r.plural}" for n in names for r in group_version.resources):
            return True
    return False
