"""References from a pod to other API objects, and the annotations of static and mirror pods (`pkg/api/pod/util.go`)."""

from __future__ import annotations

from collections.abc import Iterator

from sampan.api.semantics.pods import all_containers
from sampan.api.types.core_v1 import Pod, PodSpec, ProjectedVolumeSource, Volume, VolumeProjection

CONFIG_SOURCE, CONFIG_MIRROR = "kubernetes.io/config.source", "kubernetes.io/config.mirror"
CONFIG_HASH, CONFIG_SEEN = "kubernetes.io/config.hash", "kubernetes.io/config.seen"

_SECRET_REF_PLUGINS = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
_VOLUMES = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTED = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def is_mirror_pod(pod: Pod) -> bool:
    """Whether the object shows a static pod of a kubelet."""
    return CONFIG_MIRROR in pod.metadata.annotations


def secret_names(spec: PodSpec) -> Iterator[str]:
    """Yield the names of the secrets that a pod uses, once per use."""
    yield from (name for name in _secret_names(spec) if name)


def config_map_names(spec: PodSpec) -> Iterator[str]:
    """Yield the names of the config maps that a pod uses, once per use."""
    yield from (name for name in _config_map_names(spec) if name)


def referenced_resource(spec: PodSpec) -> str:
    """Return the resource of the first API object that the pod refers to; "" if it refers to none.

    Static and mirror pods must not refer to API objects: a static pod runs without an API server.
    """
    if spec.serviceAccountName:
        return "serviceaccounts"
    if any(_secret_names(spec)):
        return "secrets"
    if any(_config_map_names(spec)):
        return "configmaps"
    if spec.resourceClaims:
        return "resourceclaims"
    return next((resource for volume in spec.volumes for resource in _volume_resources(volume)), "")


def _secret_names(spec: PodSpec) -> Iterator[str]:
    yield from (reference.name for reference in spec.imagePullSecrets)
    for container in all_containers(spec):
        yield from (source.secretRef.name for source in container.envFrom if source.secretRef is not None)
        for variable in container.env:
            if variable.valueFrom is not None and variable.valueFrom.secretKeyRef is not None:
                yield variable.valueFrom.secretKeyRef.name
    for volume in spec.volumes:
        yield from _volume_secret_names(volume)


def _volume_secret_names(volume: Volume) -> Iterator[str]:
    if volume.secret is not None:
        yield volume.secret.secretName
    if volume.azureFile is not None:
        yield volume.azureFile.secretName
    if volume.csi is not None and volume.csi.nodePublishSecretRef is not None:
        yield volume.csi.nodePublishSecretRef.name
    for projection in _projections(volume.projected):
        if projection.secret is not None:
            yield projection.secret.name
    for plugin in _SECRET_REF_PLUGINS:
        source = getattr(volume, plugin)
        if source is not None and source.secretRef is not None:
            yield source.secretRef.name


def _config_map_names(spec: PodSpec) -> Iterator[str]:
    for container in all_containers(spec):
        yield from (source.configMapRef.name for source in container.envFrom if source.configMapRef is not None)
        for variable in container.env:
            if variable.valueFrom is not None and variable.valueFrom.configMapKeyRef is not None:
                yield variable.valueFrom.configMapKeyRef.name
    for volume in spec.volumes:
        if volume.configMap is not None:
            yield volume.configMap.name
        for projection in _projections(volume.projected):
            if projection.configMap is not None:
                yield projection.configMap.name


def _projections(source: ProjectedVolumeSource | None) -> list[VolumeProjection]:
    return (source.sources or []) if source is not None else []


def _volume_resources(volume: Volume) -> Iterator[str]:
    for field, resource in _VOLUMES.items():
        if getattr(volume, field) is not None:
            yield resource
    for projection in _projections(volume.projected):
        for field, resource in _PROJECTED.items():
            if getattr(projection, field) is not None:
                yield resource
