"""The PodSecurityConfiguration: the defaults for namespaces without labels, and exemptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sampan.apiserver.admission.configuration import ConfigurationError
from sampan.apiserver.admission.pod_security.labels import DEFAULT, LEVELS, PRIVILEGED, Policy, Standard, minor_of

_GROUP = "pod-security.admission.config.k8s.io/"
_KIND = "PodSecurityConfiguration"
_MODES = ("enforce", "audit", "warn")
_EXEMPTIONS = ("usernames", "namespaces", "runtimeClasses")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSecurityConfig:
    default: Policy = DEFAULT
    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


def read(config: Mapping[str, Any]) -> PodSecurityConfig:
    """Return the configuration. Raise ConfigurationError if it is invalid."""
    version = str(config.get("apiVersion", ""))
    if config.get("kind") != _KIND or not version.startswith(_GROUP):
        raise ConfigurationError(f"PodSecurity: want kind {_KIND} of apiVersion {_GROUP}v1")
    _check_keys(config, ("apiVersion", "kind", "defaults", "exemptions"), "")
    defaults, exemptions = _part(config, "defaults"), _part(config, "exemptions")
    _check_keys(defaults, [key for mode in _MODES for key in (mode, f"{mode}-version")], "defaults.")
    _check_keys(exemptions, _EXEMPTIONS, "exemptions.")
    usernames, namespaces, classes = (_names(exemptions, key) for key in _EXEMPTIONS)
    return PodSecurityConfig(
        default=Policy(*(_standard(defaults, mode) for mode in _MODES)),
        usernames=usernames,
        namespaces=namespaces,
        runtime_classes=classes,
    )


def _standard(defaults: Mapping[str, Any], mode: str) -> Standard:
    level, version = str(defaults.get(mode, PRIVILEGED)), str(defaults.get(f"{mode}-version", "latest"))
    if level not in LEVELS:
        raise ConfigurationError(f"PodSecurity: defaults.{mode}: must be one of {', '.join(LEVELS)}, not {level!r}")
    minor = minor_of(version)
    if minor is None:
        raise ConfigurationError(f'PodSecurity: defaults.{mode}-version: must be "latest" or "v1.x", not {version!r}')
    return Standard(level, minor)


def _part(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = config.get(key) or {}
    if not isinstance(part, Mapping):
        raise ConfigurationError(f"PodSecurity: {key}: must be an object")
    return part


def _names(exemptions: Mapping[str, Any], key: str) -> frozenset[str]:
    names = exemptions.get(key) or []
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"PodSecurity: exemptions.{key}: must be a list of names")
    return frozenset(names)


def _check_keys(found: Mapping[str, Any], known: Any, where: str) -> None:
    for key in found:
        if key not in known:
            raise ConfigurationError(f"PodSecurity: {where}{key}: there is no such field")
