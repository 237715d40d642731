"""The version of Kubernetes that the components have, as /version and the metric kubernetes_build_info show it.

The counterparts are `k8s.io/component-base/version` and `k8s.io/component-base/metrics/prometheus/version`.
"""

from __future__ import annotations

import platform
from functools import cache

import msgspec

from sampan import __version__
from sampan.api.feature_gates import LEVEL, FeatureGates
from sampan.api.kubernetes_version import GIT_VERSION, MAJOR, MINOR
from sampan.api.types.version import Info
from sampan.machinery.telemetry.metrics import Metrics

_LABELS = {
    "major": "major",
    "minor": "minor",
    "git_version": "gitVersion",
    "git_commit": "gitCommit",
    "git_tree_state": "gitTreeState",
    "build_date": "buildDate",
    "go_version": "goVersion",
    "compiler": "compiler",
    "platform": "platform",
}
"""The fields of /version by label."""


@cache
def info(level: int = LEVEL, min_compatibility: int = LEVEL - 1) -> Info:
    """Return the document that /version serves at a level, with a minimal compatibility version."""
    return Info(
        major=MAJOR,
        minor=MINOR,
        emulationMajor=MAJOR,
        emulationMinor=str(level),
        minCompatibilityMajor=MAJOR,
        minCompatibilityMinor=str(min_compatibility),
        gitVersion=GIT_VERSION,
        gitCommit=f"sampan-{__version__}",
        gitTreeState="clean",
        buildDate="1970-01-01T00:00:00Z",
        goVersion=f"python{platform.python_version()}",
        compiler=platform.python_implementation().lower(),
        platform=f"{platform.system().lower()}/{_machine()}",
    )


def _machine() -> str:
    """Return the architecture as Go names it."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def export_build_info(metrics: Metrics) -> None:
    """Export the version of the component as labels."""
    fields = msgspec.to_builtins(info())
    labels = tuple(fields[field] for field in _LABELS.values())
    metrics.gauge(
        "kubernetes_build_info", "The version of the component as labels; the value is always 1.", tuple(_LABELS)
    ).labels(*labels).set(1)


def export_versions(metrics: Metrics, gates: FeatureGates) -> None:
    """Export the version of the component, the one it emulates, and its minimal compatibility version as labels."""
    metrics.gauge(
        "version_info",
        "The compatibility versions of the component as labels; the value is always 1.",
        ("component", "binary", "emulation", "min_compat"),
    ).labels(
        "kube", GIT_VERSION.removeprefix("v"), f"{MAJOR}.{gates.level}", f"{MAJOR}.{gates.min_compatibility_level}"
    ).set(1)
