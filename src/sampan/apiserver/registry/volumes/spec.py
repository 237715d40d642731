"""Validation of PersistentVolume specs, and of those inlined in a VolumeAttachment."""

import posixpath

from sampan.api import names
from sampan.api.faults import FieldError
from sampan.api.quantity import parse
from sampan.api.types.core_v1 import PersistentVolumeSpec, VolumeNodeAffinity
from sampan.apiserver.registry.podspec.claims import VOLUME_MODES, validate_access_mode
from sampan.apiserver.registry.podspec.formats import (
    FieldErrors,
    validate_dns_subdomain,
    validate_optional_one_of,
    validate_required,
)
from sampan.apiserver.registry.podspec.node_selectors import validate_node_selector
from sampan.apiserver.registry.volumes.sources import validate_persistent_volume_source

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
