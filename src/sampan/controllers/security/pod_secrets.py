"""The secrets that a pod references."""

from __future__ import annotations

from collections.abc import Iterator

from sampan.api.types.core_v1 import Pod, Volume


def secrets_of(pod: Pod) -> Iterator[str]:
    spec = pod.spec
    for ref in spec.imagePullSecrets:
        yield ref.name
    for container in (*spec.initContainers, *(spec.containers or ()), *spec.ephemeralContainers):
        for source in container.envFrom:
            if source.secretRef is not None:
                yield source.secretRef.name
        for variable in container.env:
            if variable.valueFrom is not None and variable.valueFrom.secretKeyRef is not None:
                yield variable.valueFrom.secretKeyRef.name
    for volume in spec.volumes:
        yield from _of_volume(volume)


def _of_volume(volume: Volume) -> Iterator[str]:
    if volume.secret is not None:
        yield volume.secret.secretName
    for source in (volume.projected.sources or ()) if volume.projected is not None else ():
        if source.secret is not None:
            yield source.secret.name
    if volume.azureFile is not None:
        yield volume.azureFile.secretName
    if volume.csi is not None and volume.csi.nodePublishSecretRef is not None:
        yield volume.csi.nodePublishSecretRef.name
    for kind in (volume.cephfs, volume.cinder, volume.flexVolume, volume.iscsi, volume.rbd, volume.scaleIO):
        if kind is not None and kind.secretRef is not None:
            yield kind.secretRef.name
    if volume.storageos is not None and volume.storageos.secretRef is not None:
        yield volume.storageos.secretRef.name
