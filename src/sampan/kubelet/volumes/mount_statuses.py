"""Pure computation of the recursive read-only mounts in container statuses."""

from __future__ import annotations

import msgspec

from sampan.api.types.core_v1 import ContainerStatus, Pod, PodStatus
from sampan.kubelet.volumes.container_mounts import is_recursive
from sampan.kubelet.volumes.state import AnyContainer, containers
from sampan.runtimes.contract import RuntimeFailure

_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def told(pod: Pod, status: PodStatus) -> PodStatus:
    asking = {each.name: found for each in containers(pod) if (found := _recursive(each))}
    if not asking:
        return status
    changed = {name: [_told(each, asking.get(each.name, set())) for each in getattr(status, name)] for name in _LISTS}
    return msgspec.structs.replace(status, **changed)


def _recursive(container: AnyContainer) -> set[str]:
    """Return the mount paths of the container's recursive read-only mounts."""
    found = set()
    for mount in container.volumeMounts:
        try:
            if is_recursive(mount, True):
                found.add(mount.mountPath)
        except RuntimeFailure:
            continue
    return found


def _told(status: ContainerStatus, places: set[str]) -> ContainerStatus:
    mounts = [
        msgspec.structs.replace(each, recursiveReadOnly="Enabled") if each.mountPath in places else each
        for each in status.volumeMounts
    ]
    return msgspec.structs.replace(status, volumeMounts=mounts) if places else status


__all__ = ["told"]
