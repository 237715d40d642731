"""The Pod Security labels of a namespace. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from sampan.api.faults import FieldError

PREFIX: Final = "pod-security.kubernetes.io/"
LEVELS: Final = ("privileged", "baseline", "restricted")
"""The levels, from the least to the most restrictive."""
PRIVILEGED, BASELINE, RESTRICTED = LEVELS
LATEST: Final = -1
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")


class Standard(NamedTuple):
    level: str = PRIVILEGED
    minor: int = LATEST
    """The minor version of Kubernetes 1.x, or LATEST."""

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"

    def is_stricter_than(self, other: Standard) -> bool:
        return LEVELS.index(self.level) > LEVELS.index(other.level)


class Policy(NamedTuple):
    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()

    @property
    def is_privileged(self) -> bool:
        return self.enforce.level == self.audit.level == self.warn.level == PRIVILEGED


DEFAULT = Policy()


def policy_of(labels: Mapping[str, str], default: Policy = DEFAULT) -> tuple[Policy, list[FieldError]]:
    """Return the policy of the labels and their errors. An invalid level counts as restricted for `enforce` and as
    privileged for `audit` and `warn`."""
    if not any(key.startswith(PREFIX) for key in labels):
        return default, []
    faults: list[FieldError] = []
    enforce = _standard(labels, "enforce", faults, default.enforce, RESTRICTED)
    has_level = labels.get(f"{PREFIX}enforce") in LEVELS
    audit = _standard(labels, "audit", faults, default.audit, PRIVILEGED)
    warn = _standard(labels, "warn", faults, default.warn, PRIVILEGED)
    if f"{PREFIX}warn" not in labels and has_level and enforce.is_stricter_than(warn):
        has_version = f"{PREFIX}warn-version" in labels
        warn = Standard(enforce.level, warn.minor if has_version else enforce.minor)
    return Policy(enforce, audit, warn), faults


def _standard(
    labels: Mapping[str, str], mode: str, faults: list[FieldError], default: Standard, otherwise: str
) -> Standard:
    level = labels.get(f"{PREFIX}{mode}", default.level)
    if level not in LEVELS:
        faults.append(_fault(mode, level, f"must be one of {', '.join(LEVELS)}"))
        level = otherwise
    version = labels.get(f"{PREFIX}{mode}-version")
    if version is None:
        return Standard(level, default.minor)
    minor = minor_of(version)
    if minor is None:
        faults.append(_fault(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
    return Standard(level, LATEST if minor is None else minor)


def minor_of(version: str) -> int | None:
    """Return the minor version of `latest` or `v1.x`; None for anything else."""
    if version == "latest":
        return LATEST
    match = _VERSION.fullmatch(version)
    return int(match[1]) if match is not None else None


def _fault(label: str, value: str, text: str) -> FieldError:
    return FieldError.invalid(f"metadata.labels[{PREFIX}{label}]", value, text)
