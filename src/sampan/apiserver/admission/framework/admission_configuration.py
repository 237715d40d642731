"""The AdmissionConfiguration file of --admission-control-config-file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sampan.machinery.config_file import ConfigFileError, read_config_file

Configurations = Mapping[str, Mapping[str, Any]]
"""The configurations by plugin name."""


class ConfigurationError(ConfigFileError):
    """A configuration is invalid; the message names the file or field and the reason."""


def read_configurations(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return the configurations by plugin. Each is inline, or in another file whose path is relative to this one."""
    content = _read(path)
    if content.get("kind") != "AdmissionConfiguration":
        raise ConfigurationError(f"{path}: kind must be AdmissionConfiguration")
    configurations = {}
    for row in content.get("plugins") or ():
        if not isinstance(row, Mapping) or not row.get("name"):
            raise ConfigurationError(f"{path}: every plugin must have a name")
        other = row.get("path")
        part = _read(path.parent / str(other)) if other else row.get("configuration") or {}
        configurations[str(row["name"])] = resolve_kubeconfig_path(part, path.parent)
    return configurations


def resolve_kubeconfig_path(part: Mapping[str, Any], directory: Path) -> Mapping[str, Any]:
    """Resolve the kubeconfig path of the image policy relative to the directory of the file that contains it."""
    policy = part.get("imagePolicy")
    if not isinstance(policy, Mapping) or "kubeConfigFile" not in policy:
        return part
    return {**part, "imagePolicy": {**policy, "kubeConfigFile": str(directory / str(policy["kubeConfigFile"]))}}


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = read_config_file(path)
    except ConfigFileError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    if not isinstance(content, Mapping):
        raise ConfigurationError(f"{path}: is not an object")
    return content
