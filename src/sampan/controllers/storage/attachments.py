"""Planning of volume attachments and detachments for a node. Pure.

Only CSI volumes are attached: an external attacher acts on the VolumeAttachment objects.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sampan.api.semantics.conditions import READY, is_true
from sampan.api.semantics.taints import OUT_OF_SERVICE
from sampan.api.types.core_v1 import AttachedVolume, Node, PersistentVolume, Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec

MANAGED = "volumes.kubernetes.io/controller-managed-attach-detach"
UNMOUNT_TIMEOUT_S = 360.0
"""Seconds after which a volume is detached from a node that is not ready although it may still be mounted."""
_MULTI_NODE_ACCESS_MODES = ("ReadWriteMany", "ReadOnlyMany")
_TERMINAL_PHASES = ("Succeeded", "Failed")


def unique_name(volume: PersistentVolume) -> str:
    """Return the name of the volume in the node status."""
    source = volume.spec.csi
    return f"kubernetes.io/csi/{source.driver}^{source.volumeHandle}" if source is not None else ""


def attachment_name(volume: PersistentVolume, node: str) -> str:
    source = volume.spec.csi
    text = f"{source.volumeHandle}{source.driver}{node}" if source is not None else ""
    return f"csi-{hashlib.sha256(text.encode()).hexdigest()}"


def attachment(volume: PersistentVolume, node: str) -> VolumeAttachment:
    source = VolumeAttachmentSource(persistentVolumeName=volume.metadata.name)
    driver = volume.spec.csi.driver if volume.spec.csi is not None else ""
    return VolumeAttachment(
        metadata=ObjectMeta(name=attachment_name(volume, node)),
        spec=VolumeAttachmentSpec(attacher=driver, source=source, nodeName=node),
    )


def may_be_shared(volume: PersistentVolume) -> bool:
    modes = volume.spec.accessModes
    return not modes or any(mode in _MULTI_NODE_ACCESS_MODES for mode in modes)


def needs_volumes(pod: Pod) -> bool:
    if pod.status.phase in _TERMINAL_PHASES:
        return False
    running = any(
        status.state is not None and status.state.running is not None for status in pod.status.containerStatuses
    )
    return pod.metadata.deletionTimestamp is None or running or not pod.status.containerStatuses


def is_managed(node: Node) -> bool:
    return node.metadata.annotations.get(MANAGED) == "true"


def is_ready(node: Node) -> bool:
    return is_true(node.status.conditions, READY)


@dataclass(slots=True)
class DesiredAttachment:
    """A volume that pods on a node need."""

    volume: PersistentVolume
    pods: list[Pod] = field(default_factory=list)
    elsewhere: Sequence[str] = ()
    """The other nodes to which the volume is attached."""


@dataclass(slots=True)
class AttachDetachPlan:
    attach: list[DesiredAttachment] = field(default_factory=list)
    blocked: list[DesiredAttachment] = field(default_factory=list)
    """Volumes that are attached to another node and do not allow multi-attach."""
    detach: list[VolumeAttachment] = field(default_factory=list)
    report: list[AttachedVolume] = field(default_factory=list)
    """The new volumesAttached of the node status."""
    again_s: float | None = None


def plan(
    node: Node | None,
    desired_volumes: Mapping[str, DesiredAttachment],
    attached: Mapping[str, VolumeAttachment],
    waiting_s: Mapping[str, float],
) -> AttachDetachPlan:
    """Return the plan for a node. The mappings are keyed by the unique volume name; `waiting_s` is for how many seconds
    each attached volume has not been needed."""
    result = AttachDetachPlan()
    for name, request in desired_volumes.items():
        if name in attached:
            continue
        (result.blocked if request.elsewhere and not may_be_shared(request.volume) else result.attach).append(request)
    for name, volume_attachment in attached.items():
        if name in desired_volumes:
            keeps = True
        else:
            keeps = node is not None and not may_detach(node, name, waiting_s.get(name, 0.0))
            if keeps:
                result.again_s = max(1.0, UNMOUNT_TIMEOUT_S - waiting_s.get(name, 0.0))
            else:
                result.detach.append(volume_attachment)
        if keeps and volume_attachment.status.attached and volume_attachment.metadata.deletionTimestamp is None:
            result.report.append(AttachedVolume(name=name))
    result.report.sort(key=lambda volume: volume.name)
    if result.blocked:
        result.again_s = 1.0
    return result


def may_detach(node: Node, name: str, waited_s: float) -> bool:
    """Whether the volume may be detached: it is unmounted, or the node is out of service or not ready for too long."""
    if name not in node.status.volumesInUse:
        return True
    if any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints):
        return True
    return not is_ready(node) and waited_s >= UNMOUNT_TIMEOUT_S


def multi_attach_message(want: DesiredAttachment, pod: Pod, others: Iterable[Pod]) -> str:
    """Return the message of the event for a pod whose volume is attached elsewhere."""
    others = list(others)
    start = f'Multi-Attach error for volume "{want.volume.metadata.name}"'
    if not others:
        return f"{start} Volume is already exclusively attached to one node and can't be attached to another"
    names = [other.metadata.name for other in others if other.metadata.namespace == pod.metadata.namespace]
    elsewhere = len(others) - len(names)
    if not names:
        return f"{start} Volume is already used by {elsewhere} pod(s) in different namespaces"
    text = f"{start} Volume is already used by pod(s) {', '.join(names)}"
    return f"{text} and {elsewhere} pod(s) in different namespaces" if elsewhere else text
