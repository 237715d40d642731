"""The objects that the pods of a node refer to. They are computed from those pods when a node requests access, so that
other requests cost nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from sampan.api.fields import FieldTerm
from sampan.api.semantics.pod_references import config_map_names, is_mirror_pod, secret_names
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.storage.cacher import ObjectSelection

if TYPE_CHECKING:
    from sampan.apiserver.registry.registry import Registry
    from sampan.storage.cacher import Cacher

Kind = Literal[
    "secrets", "configmaps", "persistentvolumeclaims", "persistentvolumes", "serviceaccounts", "pods", "resourceclaims"
]


_PODS, _CLAIMS, _VOLUMES = ("", "Pod"), ("", "PersistentVolumeClaim"), ("", "PersistentVolume")
_SOURCES = {
    "secrets": (_PODS, _CLAIMS, _VOLUMES),
    "persistentvolumes": (_PODS, _CLAIMS),
    "volumeattachments": (("storage.k8s.io", "VolumeAttachment"),),
    "resourceslices": (("resource.k8s.io", "ResourceSlice"),),
}
"""The kinds that determine the relation to a resource, if it is not pods alone."""


class NodeGraph:
    def __init__(self, *, registry: Registry) -> None:
        self._registry = registry

    def unfilled(self, resource: str) -> list[Cacher]:
        """Return the required watch caches that are not filled yet, because the server has just started."""
        stores = (self._registry.open_store_of(group, "v1", kind) for group, kind in _SOURCES.get(resource, (_PODS,)))
        return [store.cacher for store in stores if not store.cacher.is_ready]

    def has(self, node: str, kind: Kind, namespace: str, name: str) -> bool:
        """Whether a pod on the node uses the object, or is the object."""
        if kind == "persistentvolumes":
            return name in self._volumes(node)
        pods = self._pods(node, namespace)
        if kind == "pods":
            return any(pod.metadata.name == name for pod in pods)
        if any(name in _names(pod, kind) for pod in pods if not is_mirror_pod(pod)):
            return True
        return kind == "secrets" and (namespace, name) in self._volume_secrets(node)

    def is_attached(self, node: str, attachment: str) -> bool:
        volume_attachment = self._peek("storage.k8s.io", "VolumeAttachment", "", attachment)
        return volume_attachment is not None and volume_attachment.spec.nodeName == node

    def is_slice_of(self, node: str, name: str) -> bool:
        resource_slice = self._peek("resource.k8s.io", "ResourceSlice", "", name)
        return resource_slice is not None and resource_slice.spec.nodeName == node

    def _pods(self, node: str, namespace: str = "") -> Iterator[Pod]:
        store = self._registry.open_store_of("", "v1", "Pod")
        selection = ObjectSelection(namespace=namespace, fields=(FieldTerm("spec.nodeName", node),))
        return (store.cacher.object(item) for item in store.cacher.peek_selected(selection))

    def _claims(self, node: str) -> Iterator[PersistentVolumeClaim]:
        for pod in self._pods(node):
            for name in _claim_names(pod):
                claim = self._peek("", "PersistentVolumeClaim", pod.metadata.namespace, name)
                if claim is not None:
                    yield claim

    def _volumes(self, node: str) -> set[str]:
        return {claim.spec.volumeName for claim in self._claims(node) if claim.spec.volumeName}

    def _volume_secrets(self, node: str) -> set[tuple[str, str]]:
        """Return the secrets that CSI drivers need to mount the volumes of the node."""
        volumes = (self._peek("", "PersistentVolume", "", name) for name in self._volumes(node))
        sources = (volume.spec.csi for volume in volumes if volume is not None and volume.spec.csi is not None)
        refs = (
            ref
            for csi in sources
            for ref in (csi.nodePublishSecretRef, csi.nodeStageSecretRef, csi.nodeExpandSecretRef)
            if ref is not None
        )
        return {(ref.namespace, ref.name) for ref in refs}

    def _peek(self, group: str, kind: str, namespace: str, name: str) -> Any | None:
        return self._registry.open_store_of(group, "v1", kind).peek(namespace, name)


def _names(pod: Pod, kind: Kind) -> Iterable[str]:
    """Return the names of objects of a kind, in the pod's namespace, that the pod uses."""
    spec = pod.spec
    if kind == "secrets":
        return secret_names(spec)
    if kind == "configmaps":
        return config_map_names(spec)
    if kind == "persistentvolumeclaims":
        return _claim_names(pod)
    if kind == "resourceclaims":
        return _resource_claims(pod)
    return (spec.serviceAccountName,)


def _claim_names(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if volume.persistentVolumeClaim is not None:
            yield volume.persistentVolumeClaim.claimName
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"


def _resource_claims(pod: Pod) -> Iterator[str]:
    for claim in pod.spec.resourceClaims:
        if claim.resourceClaimName:
            yield claim.resourceClaimName
    for status in pod.status.resourceClaimStatuses:
        if status.resourceClaimName:
            yield status.resourceClaimName
