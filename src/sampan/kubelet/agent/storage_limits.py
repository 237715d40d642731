"""Pure check of local ephemeral storage limits."""

from __future__ import annotations

from collections.abc import Sequence

from sampan.api import gotext
from sampan.api.quantity import parse
from sampan.api.semantics.pod_resources import effective_limits
from sampan.api.types.core_v1 import Pod, Volume
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.runtimes.contract import Usage

STORAGE = "ephemeral-storage"


def has_limit(pod: Pod) -> bool:
    return STORAGE in effective_limits(pod.spec)


def excess(pod: Pod, usages: Sequence[Usage], volumes: Sequence[VolumeUsage]) -> str | None:
    """Return why the pod is evicted, or None. The pod's limit applies to its files, logs and volumes together, the
    limit of a container to its files and logs.
    """
    limit = effective_limits(pod.spec).get(STORAGE)
    if limit is None:
        return None
    total = sum(item.used_bytes for item in counted(pod, volumes))
    if total + sum(_bytes(item) for item in usages) > limit.value():
        return f"Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
    own = {item.name: item.resources.limits.get(STORAGE) for item in pod.spec.containers or ()}
    for usage in usages:
        most = own.get(usage.name)
        if most is not None and _bytes(usage) > parse(most).value() > 0:
            quoted = gotext.quote(str(parse(most)))
            return f"Container {usage.name} exceeded its local ephemeral storage limit {quoted}. "
    return None


def counted(pod: Pod, volumes: Sequence[VolumeUsage]) -> list[VolumeUsage]:
    """Return the volumes that are on the node's disk and live as long as the pod."""
    names = {volume.name for volume in pod.spec.volumes if _is_counted(volume)}
    return [volume for volume in volumes if volume.name in names]


def _is_counted(volume: Volume) -> bool:
    if volume.emptyDir is not None:
        return volume.emptyDir.medium != "Memory"
    return volume.configMap is not None


def _bytes(usage: Usage) -> int:
    return (usage.disk_bytes or 0) + (usage.log_bytes or 0)
