"""Pure computation of the recursive read-only mounts in container statuses."""

from __future__ import annotations

import msgspec

from sampan.api.types.core_v1 import ContainerStatus, Pod, PodStatus
from sampan.kubelet.volumes.container_mounts import is_recursive
from sampan.kubelet.volumes.state import AnyContainer, containers
from sampan.runtimes.contract import RuntimeFailure

_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def told(pod: Pod, status: PodStatus) -> PodStatus:
    asking = {container.name: paths for container in containers(pod) if (paths := _recursive(container))}
    if not asking:
        return status
    changed = {
        name: [_told(container, asking.get(container.name, set())) for container in getattr(status, name)]
        for name in _LISTS
    }
    return msgspec.structs.replace(status, **changed)


def _recursive(container: AnyContainer) -> set[str]:
    """Return the mount paths of the container's recursive read-only mounts."""
    paths = set()
    for mount in container.volumeMounts:
        try:
            if is_recursive(mount, True):
                paths.add(mount.mountPath)
        except RuntimeFailure:
            continue
    return paths


def _told(status: ContainerStatus, places: set[str]) -> ContainerStatus:
    mounts = [
        msgspec.structs.replace(mount, recursiveReadOnly="Enabled") if mount.mountPath in places else mount
        for mount in status.volumeMounts
    ]
    return msgspec.structs.replace(status, volumeMounts=mounts) if places else status
