"""Which volumes are to be attached to a node, and which may be detached. Pure.

Attached is what a CSI driver attaches: somebody outside does it, told by a VolumeAttachment.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sampan.api.types.core_v1 import AttachedVolume, Node, PersistentVolume, Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec

MANAGED = "volumes.kubernetes.io/controller-managed-attach-detach"
PATIENCE_S = 360.0
"""How long a node that is not ready may keep a volume that is to be detached."""
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_MANY = ("ReadWriteMany", "ReadOnlyMany")
_ENDED = ("Succeeded", "Failed")


def unique_name(volume: PersistentVolume) -> str:
    """How nodes name the volume."""
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
    return not modes or any(mode in _MANY for mode in modes)


def needs_volumes(pod: Pod) -> bool:
    if pod.status.phase in _ENDED:
        return False
    running = any(found.state is not None and found.state.running is not None for found in pod.status.containerStatuses)
    return pod.metadata.deletionTimestamp is None or running or not pod.status.containerStatuses


def is_managed(node: Node) -> bool:
    return node.metadata.annotations.get(MANAGED) == "true"


def is_ready(node: Node) -> bool:
    return any(found.type == "Ready" and found.status == "True" for found in node.status.conditions)


@dataclass(slots=True)
class Wanted:
    """A volume that pods on a node need."""

    volume: PersistentVolume
    pods: list[Pod] = field(default_factory=list)
    elsewhere: Sequence[str] = ()
    """Other nodes that it is attached to."""


@dataclass(slots=True)
class Plan:
    attach: list[Wanted] = field(default_factory=list)
    blocked: list[Wanted] = field(default_factory=list)
    """On another node, and only one may have it."""
    detach: list[VolumeAttachment] = field(default_factory=list)
    report: list[AttachedVolume] = field(default_factory=list)
    """What the node is told that it has."""
    again_s: float | None = None


def plan(
    node: Node | None,
    wanted: Mapping[str, Wanted],
    attached: Mapping[str, VolumeAttachment],
    waiting_s: Mapping[str, float],
) -> Plan:
    """`wanted` and `attached` by the volume's unique name; `waiting_s`: for how long each has been unwanted."""
    found = Plan()
    for name, want in wanted.items():
        if name in attached:
            continue
        (found.blocked if want.elsewhere and not may_be_shared(want.volume) else found.attach).append(want)
    for name, has in attached.items():
        if name in wanted:
            keeps = True
        else:
            keeps = node is not None and not may_detach(node, name, waiting_s.get(name, 0.0))
            if keeps:
                found.again_s = max(1.0, PATIENCE_S - waiting_s.get(name, 0.0))
            else:
                found.detach.append(has)
        if keeps and has.status.attached and has.metadata.deletionTimestamp is None:
            found.report.append(AttachedVolume(name=name))
    found.report.sort(key=lambda one: one.name)
    if found.blocked:
        found.again_s = 1.0
    return found


def may_detach(node: Node, name: str, waited_s: float) -> bool:
    """Not while the node has it mounted, unless nobody can tell any more."""
    if name not in node.status.volumesInUse:
        return True
    if any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints):
        return True
    return not is_ready(node) and waited_s >= PATIENCE_S


def multi_attach(want: Wanted, pod: Pod, others: Iterable[Pod]) -> str:
    """Why the pod has to wait, as it is told."""
    others = list(others)
    start = f'Multi-Attach error for volume "{want.volume.metadata.name}"'
    if not others:
        return f"{start} Volume is already exclusively attached to one node and can't be attached to another"
    near = [one.metadata.name for one in others if one.metadata.namespace == pod.metadata.namespace]
    far = len(others) - len(near)
    if not near:
        return f"{start} Volume is already used by {far} pod(s) in different namespaces"
    text = f"{start} Volume is already used by pod(s) {', '.join(near)}"
    return f"{text} and {far} pod(s) in different namespaces" if far else text
