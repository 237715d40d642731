"""Validation of PersistentVolume updates."""

from typing import Any

import msgspec

from sampan.api.faults import FieldError
from sampan.api.types.core_v1 import NodeSelectorRequirement, NodeSelectorTerm, PersistentVolumeSpec, VolumeNodeAffinity
from sampan.apiserver.registry.podspec.formats import FieldErrors
from sampan.apiserver.registry.podspec.internal_view import difference, shown

_SOURCES = (
    *("gcePersistentDisk", "awsElasticBlockStore", "hostPath", "glusterfs", "nfs", "rbd", "quobyte", "iscsi"),
    *("flexVolume", "cinder", "cephfs", "fc", "flocker", "azureFile", "vsphereVolume", "azureDisk"),
    *("photonPersistentDisk", "portworxVolume", "scaleIO", "local", "storageos", "csi"),
)
_NEWER_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def validate_persistent_volume_update(new: PersistentVolumeSpec, old: PersistentVolumeSpec) -> FieldErrors:
    new_source, old_source = _source(new), _source(old)
    if new.csi is not None and old.csi is not None and old.csi.controllerExpandSecretRef is None:
        new_source["csi"] = msgspec.structs.replace(new.csi, controllerExpandSecretRef=None)
    if new_source != old_source:
        message = "spec.persistentvolumesource is immutable after creation"
        text = f"{message}\n{difference(_Sources(**old_source), _Sources(**new_source))}"
        yield FieldError.forbidden("spec.persistentvolumesource", text)
    if new.volumeMode != old.volumeMode:
        yield FieldError.invalid("volumeMode", new.volumeMode, "field is immutable")
    if old.nodeAffinity is not None and not _is_same_place(new.nodeAffinity, old.nodeAffinity):
        text = "field is immutable, except for updating from beta label to GA"
        yield FieldError.invalid("nodeAffinity", shown(new.nodeAffinity), text)
    if old.volumeAttributesClassName is not None and new.volumeAttributesClassName is None:
        yield FieldError.forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def _source(spec: PersistentVolumeSpec) -> dict[str, Any]:
    return {field: getattr(spec, field) for field in _SOURCES}


_Sources = msgspec.defstruct("PersistentVolumeSource", [(name, Any) for name in _SOURCES])


def _is_same_place(new: VolumeNodeAffinity | None, old: VolumeNodeAffinity) -> bool:
    """Whether the node affinity is unchanged except that beta labels were replaced by their GA names."""
    if new is None or (new.required is None) != (old.required is None):
        return False
    new_terms, old_terms = _terms(new), _terms(old)
    return len(new_terms) == len(old_terms) and all(map(_is_same_term, new_terms, old_terms))


def _terms(affinity: VolumeNodeAffinity) -> list[NodeSelectorTerm]:
    return (affinity.required.nodeSelectorTerms or []) if affinity.required is not None else []


def _is_same_term(new: NodeSelectorTerm, old: NodeSelectorTerm) -> bool:
    expressions = new.matchExpressions, old.matchExpressions
    if new.matchFields != old.matchFields or len(expressions[0]) != len(expressions[1]):
        return False
    return all(map(_is_same_requirement, *expressions))


def _is_same_requirement(new: NodeSelectorRequirement, old: NodeSelectorRequirement) -> bool:
    is_same_key = new.key in (old.key, _NEWER_LABELS.get(old.key))
    return is_same_key and new.operator == old.operator and new.values == old.values
