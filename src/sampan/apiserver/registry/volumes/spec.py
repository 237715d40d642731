"""Default values and validation of the spec of a persistent volume, and of its updates."""

import posixpath
from typing import Any

import msgspec

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import difference, shown
from sampan.api.quantity import parse
from sampan.api.types.core_v1 import NodeSelectorRequirement, NodeSelectorTerm, PersistentVolumeSpec, VolumeNodeAffinity
from sampan.apiserver.registry.podspec.node_selection import validate_node_selector
from sampan.apiserver.registry.podspec.resources import round_up
from sampan.apiserver.registry.podspec.volumes.defaults import default_source
from sampan.apiserver.registry.podspec.volumes.volume_claims import VOLUME_MODES, validate_access_mode
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_subdomain,
    validate_optional_one_of,
    validate_required,
)
from sampan.apiserver.registry.volumes.sources import validate_persistent_volume_source

_WITH_DEFAULTS = ("hostPath", "rbd", "iscsi", "azureDisk", "scaleIO")


def default_sources(spec: PersistentVolumeSpec) -> None:
    round_up(spec.capacity)
    for name in _WITH_DEFAULTS:
        source = getattr(spec, name)
        if source is not None:
            default_source(name, source)


def default_volume(spec: PersistentVolumeSpec) -> None:
    default_sources(spec)
    spec.persistentVolumeReclaimPolicy = spec.persistentVolumeReclaimPolicy or "Retain"
    if spec.volumeMode is None:
        spec.volumeMode = "Filesystem"


RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_INLINE = "in the context of inline volumes"
_NOT_INLINE = f"may not be specified {_INLINE}"


def validate_persistent_volume_spec(
    spec: PersistentVolumeSpec, name: str, at: str, *, allow_bad_values: bool = False
) -> FieldErrors:
    """Yield the errors of a spec. `allow_bad_values` tolerates invalid label values in the node affinity."""
    yield from validate_required(spec.accessModes, f"{at}.accessModes")
    yield from validate_access_mode(spec.accessModes, f"{at}.accessModes")
    yield from _validate_capacity(spec.capacity, f"{at}.capacity")
    policy = spec.persistentVolumeReclaimPolicy
    yield from validate_optional_one_of(policy or None, RECLAIM_POLICIES, f"{at}.persistentVolumeReclaimPolicy")
    if spec.nodeAffinity is not None:
        yield from _validate_affinity(spec.nodeAffinity, f"{at}.nodeAffinity", allow_bad_values)
    yield from validate_persistent_volume_source(spec, name, at)
    yield from _validate_recycle_policy(spec, at)
    if spec.storageClassName:
        yield from validate_dns_subdomain(spec.storageClassName, f"{at}.storageClassName")
    yield from validate_optional_one_of(spec.volumeMode, VOLUME_MODES, f"{at}.volumeMode")
    yield from _validate_attributes_class(spec, at)


def validate_inline_volume_spec(spec: PersistentVolumeSpec, at: str) -> FieldErrors:
    if spec.claimRef is not None:
        yield FieldError.forbidden(f"{at}.claimRef", _NOT_INLINE)
    if spec.capacity:
        yield FieldError.forbidden(f"{at}.capacity", _NOT_INLINE)
    if spec.csi is None:
        yield FieldError.required(f"{at}.csi", f"has to be specified {_INLINE}")
    yield from validate_required(spec.accessModes, f"{at}.accessModes")
    yield from validate_access_mode(spec.accessModes, f"{at}.accessModes")
    if spec.persistentVolumeReclaimPolicy not in ("", "Retain"):
        yield FieldError.forbidden(f"{at}.persistentVolumeReclaimPolicy", f"may only be Retain {_INLINE}")
    if spec.nodeAffinity is not None:
        yield FieldError.forbidden(f"{at}.nodeAffinity", _NOT_INLINE)
    yield from validate_persistent_volume_source(spec, "", at)
    yield from _validate_recycle_policy(spec, at)
    if spec.storageClassName:
        yield FieldError.forbidden(f"{at}.storageClassName", _NOT_INLINE)
    if spec.volumeMode not in (None, "Filesystem"):
        text = f"may not specify volumeMode other than Filesystem {_INLINE}"
        yield FieldError.forbidden(f"{at}.volumeMode", text)


def has_bad_affinity(spec: PersistentVolumeSpec) -> bool:
    """Whether the node affinity has invalid label values."""
    required = spec.nodeAffinity.required if spec.nodeAffinity is not None else None
    terms = required.nodeSelectorTerms if required is not None else None
    expressions = (expression for term in terms or () for expression in term.matchExpressions)
    return any(names.label_value(value) for expression in expressions for value in expression.values)


def _validate_capacity(capacity: dict[str, str], at: str) -> FieldErrors:
    if not capacity:
        yield FieldError.required(at)
    if list(capacity) != ["storage"]:
        yield FieldError.not_supported(at, dict(sorted(capacity.items())) or None, ["storage"])
    for name, text in sorted(capacity.items()):
        amount = parse(text)
        if amount.value() < 0:
            yield FieldError.invalid(f"{at}[{name}]", amount.value(), "must be a valid resource quantity")
        if amount.sign <= 0:
            yield FieldError.invalid(f"{at}[{name}]", text, "must be greater than zero")


def _validate_affinity(affinity: VolumeNodeAffinity, at: str, allow_bad_values: bool) -> FieldErrors:
    if affinity.required is None:
        yield FieldError.required(f"{at}.required", "must specify required node constraints")
        return
    yield from validate_node_selector(affinity.required, f"{at}.required", allow_bad_values=allow_bad_values)


def _validate_recycle_policy(spec: PersistentVolumeSpec, at: str) -> FieldErrors:
    if spec.hostPath is None or spec.persistentVolumeReclaimPolicy != "Recycle":
        return
    if posixpath.normpath(spec.hostPath.path) in ("/", "//"):
        text = "may not be 'recycle' for a hostPath mount of '/'"
        yield FieldError.forbidden(f"{at}.persistentVolumeReclaimPolicy", text)


def _validate_attributes_class(spec: PersistentVolumeSpec, at: str) -> FieldErrors:
    name = spec.volumeAttributesClassName
    if name is None:
        return
    if name:
        yield from validate_dns_subdomain(name, f"{at}.volumeAttributesClassName")
    else:
        yield FieldError.required(f"{at}.volumeAttributesClassName", "an empty string is disallowed")
    if spec.csi is None:
        yield FieldError.required(f"{at}.csi", "has to be specified when using volumeAttributesClassName")


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
