"""Pure computation of the Node object that a kubelet publishes (`pkg/kubelet/nodestatus`)."""

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sampan.api.codec import json
from sampan.api.feature_gates import FeatureGates
from sampan.api.kubernetes_version import GIT_VERSION
from sampan.api.semantics.conditions import is_true
from sampan.api.types.core_v1 import (
    ContainerImage,
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeFeatures,
    NodeRuntimeHandler,
    NodeStatus,
    NodeSystemInfo,
)
from sampan.api.values import times
from sampan.kubelet.config import PORT

READY, MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE = "Ready", "MemoryPressure", "DiskPressure", "PIDPressure"
_CONDITIONS = (
    (MEMORY_PRESSURE, "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    (DISK_PRESSURE, "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    (PID_PRESSURE, "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    (READY, "True", "KubeletReady", "kubelet is posting ready status"),
)
_WRITTEN = (
    *("capacity", "allocatable", "nodeInfo", "daemonEndpoints", "images", "runtimeHandlers", "features"),
    "volumesInUse",
    "declaredFeatures",
)
_MANAGED_CONDITIONS = frozenset(type for type, *_ in _CONDITIONS)
CONTROLLER_ATTACHES = "volumes.kubernetes.io/controller-managed-attach-detach"
OS = "linux"
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
_KERNEL = platform.release()


_DECLARABLE = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
    "VolumeBindMountOptions",
)
_MOUNT_OPTIONS = "VolumeBindMountOptions"
"""Features that not every kubelet supports, sorted, each with a gate of the same name. Scheduling and admission of pods
that need such a feature depend on the list in the node status.
"""


def declared_features(gates: FeatureGates, *, has_mount_options: bool = False) -> tuple[str, ...]:
    """Return the features to be listed in the node status. `has_mount_options` tells whether the container runtime
    heeds the options of mounts. Pure."""
    if not gates.is_enabled("NodeDeclaredFeatures"):
        return ()
    return tuple(
        name for name in _DECLARABLE if gates.is_enabled(name) and (has_mount_options or name != _MOUNT_OPTIONS)
    )


ConditionValue = tuple[str, str, str]
"""Status, reason and message of a condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMachine:
    """Properties of a machine that its kubelet discovers."""

    capacity: Mapping[str, str]
    address: str
    runtime: str
    """Name and version of the container runtime, for example `hollow://1.0`."""
    boot: str = ""
    """The boot ID, which changes with every boot of the machine; empty if it has not rebooted."""
    os_image: str = "Sampan"
    allocatable: Mapping[str, str] | None = None
    """Resources available to pods; None if the whole capacity is available."""
    more_addresses: Sequence[str] = ()
    hostname: str = ""
    """Hostname of the machine; empty if it is the node's name."""
    port: int = PORT
    info: NodeSystemInfo | None = None
    """System information of a real machine; None for a hollow node."""
    conditions: Mapping[str, ConditionValue] = field(default_factory=dict)
    """Conditions that deviate from those of a healthy node, by type."""
    images: Sequence[ContainerImage] | None = None
    handlers: Sequence[NodeRuntimeHandler] = ()
    features: NodeFeatures | None = None
    declared_features: Sequence[str] = ()
    volumes_in_use: Sequence[str] | None = None


def build_node_labels(name: str) -> dict[str, str]:
    """Return the labels that a kubelet sets on its node."""
    return {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": OS,
        "kubernetes.io/arch": ARCH,
        "beta.kubernetes.io/os": OS,
        "beta.kubernetes.io/arch": ARCH,
    }


def node_status(node: Node, machine: NodeMachine, now: float) -> NodeStatus:
    """Return the current status of the node. Fields and conditions that other components write are kept."""
    old, name = node.status, node.metadata.name
    capacity = dict(old.capacity) | dict(machine.capacity)
    others = {name: amount for name, amount in old.allocatable.items() if name not in machine.capacity}
    return NodeStatus(
        capacity=capacity,
        allocatable=capacity if machine.allocatable is None else others | dict(machine.allocatable),
        conditions=_conditions(old, machine.conditions, now),
        addresses=[
            *(
                NodeAddress(type="InternalIP", address=address)
                for address in (machine.address, *machine.more_addresses)
            ),
            NodeAddress(type="Hostname", address=machine.hostname or name),
        ],
        daemonEndpoints=NodeDaemonEndpoints(kubeletEndpoint=DaemonEndpoint(Port=machine.port)),
        nodeInfo=machine.info or _system_info(node, machine),
        images=old.images if machine.images is None else list(machine.images),
        volumesInUse=old.volumesInUse if machine.volumes_in_use is None else list(machine.volumes_in_use),
        volumesAttached=old.volumesAttached,
        runtimeHandlers=list(machine.handlers) or old.runtimeHandlers,
        declaredFeatures=list(machine.declared_features),
        features=machine.features or old.features,
    )


def _conditions(old: NodeStatus, bad: Mapping[str, ConditionValue], now: float) -> list[NodeCondition]:
    """Return the conditions of other components first, then the kubelet's own with Ready last."""
    before = {condition.type: condition for condition in old.conditions}
    moment = times.format_time(now)
    conditions = [condition for condition in old.conditions if condition.type not in _MANAGED_CONDITIONS]
    for type, *usual in _CONDITIONS:
        status, reason, message = bad.get(type, usual)
        last = before.get(type)
        since = last.lastTransitionTime if last is not None and last.status == status else moment
        conditions.append(
            NodeCondition(
                type=type,
                status=status,
                reason=reason,
                message=message,
                lastHeartbeatTime=moment,
                lastTransitionTime=since,
            )
        )
    return conditions


def _system_info(node: Node, machine: NodeMachine) -> NodeSystemInfo:
    name, boot = node.metadata.name, node.status.nodeInfo.bootID
    if machine.boot or not boot:
        boot = _uuid(hashlib.sha256(f"{name}/{machine.boot}".encode()).hexdigest())
    identity = hashlib.sha256(name.encode()).hexdigest()
    return NodeSystemInfo(
        machineID=identity[:32],
        systemUUID=_uuid(identity),
        bootID=boot,
        kernelVersion=_KERNEL,
        osImage=machine.os_image,
        containerRuntimeVersion=machine.runtime,
        kubeletVersion=GIT_VERSION,
        kubeProxyVersion="",
        operatingSystem=OS,
        architecture=ARCH,
    )


def _uuid(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def has_changed(old: NodeStatus, new: NodeStatus) -> bool:
    """Whether the statuses differ in more than the heartbeat time."""
    return (
        old.capacity != new.capacity
        or old.allocatable != new.allocatable
        or old.addresses != new.addresses
        or old.nodeInfo != new.nodeInfo
        or old.daemonEndpoints != new.daemonEndpoints
        or old.images != new.images
        or old.runtimeHandlers != new.runtimeHandlers
        or old.features != new.features
        or old.volumesInUse != new.volumesInUse
        or old.declaredFeatures != new.declaredFeatures
        or [_without_times(condition) for condition in old.conditions]
        != [_without_times(condition) for condition in new.conditions]
    )


def _without_times(condition: NodeCondition) -> tuple[str, str, str, str]:
    return condition.type, condition.status, condition.reason, condition.message


def status_patch(old: NodeStatus, new: NodeStatus) -> dict[str, Any]:
    """Return the strategic merge patch from the old to the new status, without the fields that other components own."""
    conditions = [json.to_value(item) for item in new.conditions if item.type in _MANAGED_CONDITIONS]
    patch: dict[str, Any] = {
        "$setElementOrder/conditions": [{"type": item.type} for item in new.conditions],
        "conditions": conditions,
    }
    for name in _WRITTEN:
        if getattr(old, name) != getattr(new, name):
            patch[name] = json.to_value(getattr(new, name))
    if old.addresses != new.addresses:
        patch["addresses"] = [*(json.to_value(item) for item in new.addresses), {"$patch": "replace"}]
    return patch


def is_ready(status: NodeStatus) -> bool:
    return is_true(status.conditions, READY)
