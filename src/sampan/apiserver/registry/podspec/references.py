"""References from a pod to other objects."""

from collections.abc import Iterator

from sampan.api.types.core_v1 import PodSpec
from sampan.apiserver.registry.podspec.everywhere import containers_of

_WITH_SECRET_REF = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")


def secrets_of(spec: PodSpec) -> Iterator[str]:
    """Yield the names of the secrets that a pod uses, once per use."""
    yield from (name for name in _secrets(spec) if name)


def _secrets(spec: PodSpec) -> Iterator[str]:
    yield from (reference.name for reference in spec.imagePullSecrets)
    for _, container, _ in containers_of(spec):
        yield from (source.secretRef.name for source in container.envFrom if source.secretRef is not None)
        for variable in container.env:
            if variable.valueFrom is not None and variable.valueFrom.secretKeyRef is not None:
                yield variable.valueFrom.secretKeyRef.name
    yield from _volume_secrets(spec)


def _volume_secrets(spec: PodSpec) -> Iterator[str]:
    for volume in spec.volumes:
        if volume.secret is not None:
            yield volume.secret.secretName
        if volume.azureFile is not None:
            yield volume.azureFile.secretName
        if volume.csi is not None and volume.csi.nodePublishSecretRef is not None:
            yield volume.csi.nodePublishSecretRef.name
        for source in (volume.projected.sources or ()) if volume.projected is not None else ():
            if source.secret is not None:
                yield source.secret.name
        for kind in _WITH_SECRET_REF:
            volume_source = getattr(volume, kind)
            if volume_source is not None and volume_source.secretRef is not None:
                yield volume_source.secretRef.name
