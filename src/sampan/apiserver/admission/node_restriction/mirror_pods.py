"""The pods that a node may create: mirror pods without references to other API objects. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sampan.api import gotext
from sampan.api.types.core_v1 import Pod, PodSpec, Volume
from sampan.apiserver.registry.podspec.annotations import MIRROR
from sampan.apiserver.registry.podspec.everywhere import containers_of
from sampan.apiserver.registry.podspec.references import secrets_of

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


def obstacle(pod: Pod, node: str) -> str:
    """Return why the node may not create the pod; "" if it may. The UID of the owner reference is not checked here."""
    own = gotext.quote(node)
    if MIRROR not in pod.metadata.annotations:
        return f"pod does not have {gotext.quote(MIRROR)} annotation, node {own} can only create mirror pods"
    if pod.spec.nodeName != node:
        return f"node {own} can only create pods with spec.nodeName set to itself"
    return _owner_fault(pod, node)


def _owner_fault(pod: Pod, node: str) -> str:
    start, owners = f"node {gotext.quote(node)}", pod.metadata.ownerReferences
    if len(owners) > 1:
        return f"{start} can only create pods with a single owner reference set to itself"
    if not owners or (owners[0].apiVersion, owners[0].kind, owners[0].name) != ("v1", "Node", node):
        return f"{start} can only create pods with an owner reference set to itself"
    if not owners[0].controller:
        return f"{start} can only create pods with a controller owner reference set to itself"
    if owners[0].blockOwnerDeletion:
        return f"{start} must not set blockOwnerDeletion on an owner reference"
    return ""


def reference(spec: PodSpec) -> str:
    """Return the first kind of API objects that the pod refers to; "" if there is none."""
    return next(_references(spec), "")


def _references(spec: PodSpec) -> Iterator[str]:
    if spec.serviceAccountName:
        yield "serviceaccounts"
    if any(secrets_of(spec)):
        yield "secrets"
    if any(_config_maps(spec)):
        yield "configmaps"
    if spec.resourceClaims:
        yield "resourceclaims"
    for volume in spec.volumes:
        yield from _of_volume(volume)


def _config_maps(spec: PodSpec) -> Iterator[str]:
    for _, container, _ in containers_of(spec):
        yield from (source.configMapRef.name for source in container.envFrom if source.configMapRef is not None)
        for variable in container.env:
            if variable.valueFrom is not None and variable.valueFrom.configMapKeyRef is not None:
                yield variable.valueFrom.configMapKeyRef.name
    for volume in spec.volumes:
        if volume.configMap is not None:
            yield volume.configMap.name
        for source in (volume.projected.sources or ()) if volume.projected is not None else ():
            if source.configMap is not None:
                yield source.configMap.name


def _of_volume(volume: Volume) -> Iterator[str]:
    for name, kind in _VOLUMES.items():
        if getattr(volume, name) is not None:
            yield kind
    for source in (volume.projected.sources or ()) if volume.projected is not None else ():
        for name, kind in _PROJECTED.items():
            if getattr(source, name) is not None:
                yield kind
