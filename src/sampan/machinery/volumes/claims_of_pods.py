"""The claims that a pod uses. Pure."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

from sampan.api.types.core_v1 import Pod
from sampan.machinery.object_key import NamespacedName


def claim_name_of(pod: Pod, volume: Any) -> str:
    """Return the name of the claim of a volume of the pod, which may not exist yet; empty if the volume has none."""
    if volume.persistentVolumeClaim is not None:
        name: str = volume.persistentVolumeClaim.claimName
        return name
    return ephemeral_claim_name(pod, volume) if volume.ephemeral is not None else ""


def ephemeral_claim_name(pod: Pod, volume: Any) -> str:
    return f"{pod.metadata.name}-{volume.name}"


def claim_names_of(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if name := claim_name_of(pod, volume):
            yield name


def by_claim(pod: Pod) -> Iterable[Hashable]:
    """Index pods by the claims that they use."""
    return [NamespacedName(pod.metadata.namespace, name) for name in claim_names_of(pod)]
