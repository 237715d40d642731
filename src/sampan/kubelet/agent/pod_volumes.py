"""Creates the volume manager of a real node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sampan.kubelet.agent.pressure import EVICTED
from sampan.kubelet.node_status import Machine
from sampan.kubelet.pod_status import Verdict
from sampan.kubelet.volumes import VolumeCallbacks, VolumeConfig, VolumeManager
from sampan.machinery.events import WARNING

if TYPE_CHECKING:
    from sampan.kubelet.agent.kubelet import Kubelet

_AT_ONCE_S = 1.0
_PATIENCE_S = 5.0
"""How long a worker waits for a pod's volumes; the pod is synced again when they are mounted later."""


def managed(kubelet: Kubelet) -> VolumeManager:
    machine = kubelet.node.machine
    config = VolumeConfig(
        root=kubelet.config.root,
        node_name=kubelet.config.name,
        allocatable=machine.allocatable or machine.capacity,
        mount_timeout_s=_PATIENCE_S,
    )
    callbacks = VolumeCallbacks(
        warn=lambda pod, reason, message: kubelet.events.pod(kubelet.node, pod, WARNING, reason, message),
        on_ready=kubelet.look_at,
        on_excess=lambda pod, message: kubelet.guard.evict(pod, Verdict(reason=EVICTED, message=message), _AT_ONCE_S),
        record_event=lambda about, type, reason, message: kubelet.events.about(
            kubelet.node, about, type, reason, message
        ),
        supports_recursive_read_only=lambda: _can_recurse(kubelet.node.machine),
    )
    return VolumeManager(
        config=config,
        client=kubelet.client,
        informers=kubelet.informers,
        objects=kubelet.objects,
        clock=kubelet.clock,
        callbacks=callbacks,
        activity=kubelet.activity,
    )


def _can_recurse(machine: Machine) -> bool:
    usual = next((handler.features for handler in machine.handlers if not handler.name), None)
    return usual is not None and bool(usual.recursiveReadOnlyMounts)
