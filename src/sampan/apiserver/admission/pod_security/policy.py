"""The Pod Security policy of a namespace: its labels, and the PodSecurityConfiguration with defaults and exemptions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sampan.api.field_errors import FieldError
from sampan.apiserver.admission.framework.admission_configuration import ConfigurationError

PREFIX: Final = "pod-security.kubernetes.io/"
LEVELS: Final = ("privileged", "baseline", "restricted")
"""The levels, from the least to the most restrictive."""
PRIVILEGED, BASELINE, RESTRICTED = LEVELS
LATEST: Final = -1
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")


class PodSecurityStandard(NamedTuple):
    level: str = PRIVILEGED
    minor: int = LATEST
    """The minor version of Kubernetes 1.x, or LATEST."""

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def is_stricter_than(self, other: PodSecurityStandard) -> bool:
        return LEVELS.index(self.level) > LEVELS.index(other.level)


class NamespacePolicy(NamedTuple):
    enforce: PodSecurityStandard = PodSecurityStandard()
    audit: PodSecurityStandard = PodSecurityStandard()
    warn: PodSecurityStandard = PodSecurityStandard()

    @property
    def is_privileged(self) -> bool:
        return self.enforce.level == self.audit.level == self.warn.level == PRIVILEGED


DEFAULT = NamespacePolicy()


def policy_of(
    labels: Mapping[str, str], default: NamespacePolicy = DEFAULT
) -> tuple[NamespacePolicy, list[FieldError]]:
    """Return the policy of the labels and their errors. An invalid level counts as restricted for `enforce` and as
    privileged for `audit` and `warn`."""
    if not any(key.startswith(PREFIX) for key in labels):
        return default, []
    errors: list[FieldError] = []
    enforce = _standard(labels, "enforce", errors, default.enforce, RESTRICTED)
    has_level = labels.get(f"{PREFIX}enforce") in LEVELS
    audit = _standard(labels, "audit", errors, default.audit, PRIVILEGED)
    warn = _standard(labels, "warn", errors, default.warn, PRIVILEGED)
    if f"{PREFIX}warn" not in labels and has_level and enforce.is_stricter_than(warn):
        has_version = f"{PREFIX}warn-version" in labels
        warn = PodSecurityStandard(enforce.level, warn.minor if has_version else enforce.minor)
    return NamespacePolicy(enforce, audit, warn), errors


def _standard(
    labels: Mapping[str, str], mode: str, errors: list[FieldError], default: PodSecurityStandard, otherwise: str
) -> PodSecurityStandard:
    level = labels.get(f"{PREFIX}{mode}", default.level)
    if level not in LEVELS:
        errors.append(_invalid_label(mode, level, f"must be one of {', '.join(LEVELS)}"))
        level = otherwise
    version = labels.get(f"{PREFIX}{mode}-version")
    if version is None:
        return PodSecurityStandard(level, default.minor)
    minor = minor_of(version)
    if minor is None:
        errors.append(_invalid_label(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
    return PodSecurityStandard(level, LATEST if minor is None else minor)


def minor_of(version: str) -> int | None:
    """Return the minor version of `latest` or `v1.x`; None for anything else."""
    if version == "latest":
        return LATEST
    match = _VERSION.fullmatch(version)
    return int(match[1]) if match is not None else None


def _invalid_label(label: str, value: str, text: str) -> FieldError:
    return FieldError.invalid(f"metadata.labels[{PREFIX}{label}]", value, text)


_GROUP = "pod-security.admission.config.k8s.io/"
_KIND = "PodSecurityConfiguration"
_MODES = ("enforce", "audit", "warn")
_EXEMPTIONS = ("usernames", "namespaces", "runtimeClasses")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSecurityConfig:
    default: NamespacePolicy = DEFAULT
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
        default=NamespacePolicy(*(_read_standard(defaults, mode) for mode in _MODES)),
        usernames=usernames,
        namespaces=namespaces,
        runtime_classes=classes,
    )


def _read_standard(defaults: Mapping[str, Any], mode: str) -> PodSecurityStandard:
    level, version = str(defaults.get(mode, PRIVILEGED)), str(defaults.get(f"{mode}-version", "latest"))
    if level not in LEVELS:
        raise ConfigurationError(f"PodSecurity: defaults.{mode}: must be one of {', '.join(LEVELS)}, not {level!r}")
    minor = minor_of(version)
    if minor is None:
        raise ConfigurationError(f'PodSecurity: defaults.{mode}-version: must be "latest" or "v1.x", not {version!r}')
    return PodSecurityStandard(level, minor)


def _part(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = config.get(key)
    if part is None:
        return {}
    if not isinstance(part, Mapping):
        raise ConfigurationError(f"PodSecurity: {key}: must be an object")
    return part


def _names(exemptions: Mapping[str, Any], key: str) -> frozenset[str]:
    names = exemptions.get(key)
    if names is None:
        return frozenset()
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(f"PodSecurity: exemptions.{key}: must be a list of names")
    return frozenset(names)


def _check_keys(config: Mapping[str, Any], known_keys: Any, subject: str) -> None:
    for key in config:
        if key not in known_keys:
            raise ConfigurationError(f"PodSecurity: {subject}{key}: there is no such field")
