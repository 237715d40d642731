"""Feature gates: which exist at a version of Kubernetes, their stages, defaults and locks, and their values.

The table, data/feature_gates.json, is written by tools/feature_gates.py. A level is a minor version whose gates apply,
such as 36. The counterpart is `k8s.io/component-base/featuregate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Literal

import msgspec

from sampan.api.kubernetes_version import MAJOR, MINOR

LEVEL: Final = int(MINOR)
"""The level of this version of Sampan."""
LEVELS: Final = range(34, 38)
"""The levels for which the table is complete."""
IMPLEMENTED_GATES: Mapping[str, str] = {
    "AllowUnsafeMalformedObjectDeletion": "sampan.apiserver.endpoints",
    "AtomicWriteVolumeUserFields": "sampan.kubelet.volumes.plugins.api_objects",
    "ClusterTrustBundle": "sampan.apiserver.registry.kinds.clustertrustbundles",
    "ClusterTrustBundleProjection": "sampan.kubelet.volumes.plugins.trust_bundles",
    "CompositePodGroup": "sampan.api.resources.resource_table",
    "DRADeviceTaintRules": "sampan.controllers.devices.taint_eviction",
    "DefaultPodSysctls": "sampan.kubelet.container_config.sysctls",
    "EmptyDirVolumeMode": "sampan.kubelet.volumes.plugins.empty_dir",
    "EvictionRequestAPI": "sampan.api.resources.resource_table",
    "ExcludeAdmissionWebhookVirtualResources": "sampan.apiserver.admission.webhooks.plugins",
    "GRPCContainerProbeTLS": "sampan.kubelet.probes.prober",
    "GenericWorkload": "sampan.apiserver.registry.kinds.podgroups",
    "HPAGeneration": "sampan.controllers.autoscaling.controller",
    "HPAOptimizedSelectorStore": "sampan.controllers.autoscaling.controller",
    "HPAScaleToZero": "sampan.controllers.autoscaling.controller",
    "KubeletInUserNamespace": "sampan.kubelet.agent.services",
    "ManifestBasedAdmissionControlConfig": "sampan.apiserver.registry.admission_configs.reserved_names",
    "MaxUnavailableStatefulSet": "sampan.controllers.workloads.statefulset.controller",
    "MemoryQoS": "sampan.kubelet.container_config.memory_qos",
    "MutatingAdmissionPolicy": "sampan.apiserver.admission.plugins",
    "NodeControllerLeaseCircuitBreaker": "sampan.controllers.nodes.lifecycle",
    "PersistentVolumeClaimUnusedSinceTime": "sampan.controllers.storage.protection",
    "PodCertificateRequest": "sampan.kubelet.volumes.plugins.pod_certificates",
    "PodsAPI": "sampan.kubelet.agent.pods_api",
    "StaleControllerConsistencyHPA": "sampan.controllers.autoscaling.controller",
    "StatefulSetRecreateStrategy": "sampan.controllers.workloads.statefulset.controller",
    "StorageCapacityScoring": "sampan.scheduler.plugins.volume_binding",
    "StorageVersionMigrator": "sampan.controllers.storage_version_migration",
    "VolumeBindMountOptions": "sampan.kubelet.node_status",
    "VolumeLimitScaling": "sampan.scheduler.plugins.node_volume_limits",
    "WatchListCompression": "sampan.apiserver.http.watch_server",
}
"""The gates that Sampan implements both on and off, each with the module that has its feature. All other gates can only
have their default."""
BLANKET_GATES: Mapping[str, str] = {"Alpha": "AllAlpha", "Beta": "AllBeta"}
"""The gates that set all gates of a stage that are not set by name."""

Stage = Literal["Alpha", "Beta", "GA", "Deprecated", "Removed"]


class GateSpec(msgspec.Struct, frozen=True, gc=False):
    """The state of a gate from a version on, until a later spec."""

    since: int
    """The minor version; 0 for all versions."""
    stage: Stage
    default: bool = False
    locked: bool = False
    min_compatibility: int = 0
    """The lowest minimal compatibility version with which the spec applies."""


class FeatureGateError(ValueError):
    """A setting of a gate that kube-apiserver rejects, with its message."""


@cache
def gate_history() -> Mapping[str, tuple[GateSpec, ...]]:
    """Return all specs of all gates, the oldest first."""
    path = Path(__file__).with_name("data") / "feature_gates.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, tuple[GateSpec, ...]])


@cache
def gate_dependencies() -> Mapping[str, tuple[str, ...]]:
    """Return the gates that must be on if a gate is on."""
    path = Path(__file__).with_name("data") / "feature_gate_dependencies.json"
    return msgspec.json.decode(path.read_bytes(), type=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class FeatureGates:
    """The values of all gates, the same for all components of a cluster.

    Raises FeatureGateError for settings that are not possible at the level.
    """

    settings: Mapping[str, bool] = field(default_factory=dict)
    """The gates that are set by name, AllAlpha and AllBeta among them."""
    level: int = LEVEL
    min_compatibility: int | None = None
    """The minimal compatibility version; None: the level before `level`, or the oldest one."""
    _enabled: Mapping[str, bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in sorted(self.settings):
            if not self._is_known(name):
                raise FeatureGateError(f"unrecognized feature gate: {name}")
        _raise_errors(list(self._find_errors()))
        object.__setattr__(self, "_enabled", {name: self._find_value(name) for name in gate_history()})

    def is_enabled(self, name: str) -> bool:
        """Tell whether a gate is on. Raise KeyError if the table has no such gate."""
        return self._enabled[name]

    def _find_value(self, name: str) -> bool:
        if name in self.settings:
            return self.settings[name]
        spec = self.find_spec(name)
        if spec is None:
            return False
        return self.settings.get(BLANKET_GATES.get(spec.stage, ""), spec.default)

    def find_spec(self, name: str) -> GateSpec | None:
        """Return the newest spec of a gate that applies, or None if the gate is newer than the level. Raise KeyError if
        the table has no such gate."""
        compatibility = self.min_compatibility_level
        for spec in reversed(gate_history()[name]):
            if spec.since <= self.level and spec.min_compatibility <= compatibility:
                return spec
        return None

    def specs(self) -> Iterator[tuple[str, GateSpec]]:
        """Yield the gates that exist at the level, by name."""
        for name in gate_history():
            if self._is_known(name) and (spec := self.find_spec(name)) is not None:
                yield name, spec

    def check_dependencies(self) -> None:
        """Raise FeatureGateError for gates that are on although gates that they need are off."""
        missing = (
            (name, [need for need in needed if not self.is_enabled(need)])
            for name, needed in gate_dependencies().items()
            if self.is_enabled(name)
        )
        _raise_errors(
            [
                f"{name} is enabled, but depends on features that are disabled: [{' '.join(off)}]"
                for name, off in missing
                if off
            ]
        )

    @property
    def min_compatibility_level(self) -> int:
        """The minimal compatibility version: the oldest version that must be able to read what is stored."""
        return max(self.level - 1, LEVELS[0]) if self.min_compatibility is None else self.min_compatibility

    def _is_known(self, name: str) -> bool:
        """Tell whether programs of the newer one of level and LEVEL have the gate: a removed gate does not come back
        when an older version is emulated."""
        specs = gate_history().get(name)
        return specs is not None and (specs[-1].stage != "Removed" or specs[-1].since > max(self.level, LEVEL))

    def _find_errors(self) -> Iterator[str]:
        for name, value in sorted(self.settings.items()):
            spec, intent = self.find_spec(name), f"cannot set feature gate {name} to {_text(value)}, feature is"
            if spec is None:
                versions = f"{MAJOR}.{self.level}, min compatibility version {MAJOR}.{self.min_compatibility_level}"
                yield f"{intent} PreAlpha at emulated version {versions}"
            elif spec.locked and value != spec.default:
                yield f"{intent} locked to {_text(spec.default)}"


def _raise_errors(errors: list[str]) -> None:
    if errors:
        raise FeatureGateError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")


def _text(value: bool) -> str:
    return "true" if value else "false"
