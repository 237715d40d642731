"""Default values and validation of the spec of a persistent volume, of its updates, and of the volume sources that
differ from those of pods."""

import posixpath
from collections.abc import Callable
from typing import Any

import msgspec

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat.internal_view import difference, encode_error_value
from sampan.api.types.core_v1 import (
    AzureFilePersistentVolumeSource,
    CinderPersistentVolumeSource,
    CSIPersistentVolumeSource,
    GlusterfsPersistentVolumeSource,
    ISCSIPersistentVolumeSource,
    LocalVolumeSource,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolumeSpec,
    SecretReference,
    StorageOSPersistentVolumeSource,
    VolumeNodeAffinity,
)
from sampan.api.values.quantity import parse
from sampan.apiserver.registry.podspec.node_selection import validate_node_selector
from sampan.apiserver.registry.podspec.resources import round_up
from sampan.apiserver.registry.podspec.volumes import sources as storage
from sampan.apiserver.registry.podspec.volumes.defaults import default_source
from sampan.apiserver.registry.podspec.volumes.volume_claims import VOLUME_MODES, validate_access_mode
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_label,
    validate_dns_subdomain,
    validate_optional_one_of,
    validate_path_no_backsteps,
    validate_required,
)

_DEFAULTED_SOURCES = ("hostPath", "rbd", "iscsi", "azureDisk", "scaleIO")


def default_sources(spec: PersistentVolumeSpec) -> None:
    round_up(spec.capacity)
    for name in _DEFAULTED_SOURCES:
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
    spec: PersistentVolumeSpec, name: str, path: str, *, allow_bad_values: bool = False
) -> FieldErrors:
    """Yield the errors of a spec. `allow_bad_values` tolerates invalid label values in the node affinity."""
    yield from validate_required(spec.accessModes, f"{path}.accessModes")
    yield from validate_access_mode(spec.accessModes, f"{path}.accessModes")
    yield from _validate_capacity(spec.capacity, f"{path}.capacity")
    policy = spec.persistentVolumeReclaimPolicy
    yield from validate_optional_one_of(policy or None, RECLAIM_POLICIES, f"{path}.persistentVolumeReclaimPolicy")
    if spec.nodeAffinity is not None:
        yield from _validate_affinity(spec.nodeAffinity, f"{path}.nodeAffinity", allow_bad_values)
    yield from validate_persistent_volume_source(spec, name, path)
    yield from _validate_recycle_policy(spec, path)
    if spec.storageClassName:
        yield from validate_dns_subdomain(spec.storageClassName, f"{path}.storageClassName")
    yield from validate_optional_one_of(spec.volumeMode, VOLUME_MODES, f"{path}.volumeMode")
    yield from _validate_attributes_class(spec, path)


def validate_inline_volume_spec(spec: PersistentVolumeSpec, path: str) -> FieldErrors:
    if spec.claimRef is not None:
        yield FieldError.forbidden(f"{path}.claimRef", _NOT_INLINE)
    if spec.capacity:
        yield FieldError.forbidden(f"{path}.capacity", _NOT_INLINE)
    if spec.csi is None:
        yield FieldError.required(f"{path}.csi", f"has to be specified {_INLINE}")
    yield from validate_required(spec.accessModes, f"{path}.accessModes")
    yield from validate_access_mode(spec.accessModes, f"{path}.accessModes")
    if spec.persistentVolumeReclaimPolicy not in ("", "Retain"):
        yield FieldError.forbidden(f"{path}.persistentVolumeReclaimPolicy", f"may only be Retain {_INLINE}")
    if spec.nodeAffinity is not None:
        yield FieldError.forbidden(f"{path}.nodeAffinity", _NOT_INLINE)
    yield from validate_persistent_volume_source(spec, "", path)
    yield from _validate_recycle_policy(spec, path)
    if spec.storageClassName:
        yield FieldError.forbidden(f"{path}.storageClassName", _NOT_INLINE)
    if spec.volumeMode not in (None, "Filesystem"):
        text = f"may not specify volumeMode other than Filesystem {_INLINE}"
        yield FieldError.forbidden(f"{path}.volumeMode", text)


def has_bad_affinity(spec: PersistentVolumeSpec) -> bool:
    """Whether the node affinity has invalid label values."""
    required = spec.nodeAffinity.required if spec.nodeAffinity is not None else None
    terms = required.nodeSelectorTerms if required is not None else None
    expressions = (expression for term in terms or () for expression in term.matchExpressions)
    return any(names.label_value(value) for expression in expressions for value in expression.values)


def _validate_capacity(capacity: dict[str, str], path: str) -> FieldErrors:
    if not capacity:
        yield FieldError.required(path)
    if list(capacity) != ["storage"]:
        yield FieldError.not_supported(path, dict(sorted(capacity.items())) or None, ["storage"])
    for name, text in sorted(capacity.items()):
        amount = parse(text)
        if amount.value() < 0:
            yield FieldError.invalid(f"{path}[{name}]", amount.value(), "must be a valid resource quantity")
        if amount.sign <= 0:
            yield FieldError.invalid(f"{path}[{name}]", text, "must be greater than zero")


def _validate_affinity(affinity: VolumeNodeAffinity, path: str, allow_bad_values: bool) -> FieldErrors:
    if affinity.required is None:
        yield FieldError.required(f"{path}.required", "must specify required node constraints")
        return
    yield from validate_node_selector(affinity.required, f"{path}.required", allow_bad_values=allow_bad_values)


def _validate_recycle_policy(spec: PersistentVolumeSpec, path: str) -> FieldErrors:
    if spec.hostPath is None or spec.persistentVolumeReclaimPolicy != "Recycle":
        return
    if posixpath.normpath(spec.hostPath.path) in ("/", "//"):
        text = "may not be 'recycle' for a hostPath mount of '/'"
        yield FieldError.forbidden(f"{path}.persistentVolumeReclaimPolicy", text)


def _validate_attributes_class(spec: PersistentVolumeSpec, path: str) -> FieldErrors:
    name = spec.volumeAttributesClassName
    if name is None:
        return
    if name:
        yield from validate_dns_subdomain(name, f"{path}.volumeAttributesClassName")
    else:
        yield FieldError.required(f"{path}.volumeAttributesClassName", "an empty string is disallowed")
    if spec.csi is None:
        yield FieldError.required(f"{path}.csi", "has to be specified when using volumeAttributesClassName")


_SOURCES = (
    *("gcePersistentDisk", "awsElasticBlockStore", "hostPath", "glusterfs", "nfs", "rbd", "iscsi", "cinder", "cephfs"),
    *("fc", "flocker", "flexVolume", "azureFile", "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk"),
    *("portworxVolume", "scaleIO", "local", "storageos", "csi"),
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
        yield FieldError.invalid("nodeAffinity", encode_error_value(new.nodeAffinity), text)
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


_SEVERAL_SOURCES_ERROR = "may not specify more than 1 volume type"
_ISCSI_NAME_TOO_LONG_ERROR = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)


def validate_persistent_volume_source(spec: PersistentVolumeSpec, name: str, path: str) -> FieldErrors:
    """Yield the errors of the volume's sources. `name` is the name of the volume, "" for an inline volume."""
    fields = [field for field in _VALIDATIONS if getattr(spec, field) is not None]
    for index, field in enumerate(fields):
        if index and field != "flexVolume":
            yield FieldError.forbidden(f"{path}.{'cephFS' if field == 'cephfs' else field}", _SEVERAL_SOURCES_ERROR)
            continue
        yield from _VALIDATIONS[field](getattr(spec, field), f"{path}.{field}")
        if field == "iscsi" and spec.iscsi is not None:
            yield from _validate_iscsi(spec.iscsi, name, f"{path}.iscsi")
        elif field == "local" and spec.nodeAffinity is None:
            yield FieldError.required(f"{path}.nodeAffinity", "Local volume requires node affinity")
    if not fields:
        yield FieldError.required(path, "must specify a volume type")


def _validate_glusterfs(source: GlusterfsPersistentVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.endpoints, f"{path}.endpoints")
    yield from validate_required(source.path, f"{path}.path")
    namespace = source.endpointsNamespace
    if namespace == "":
        text = "if the endpointnamespace is set, it must be a valid namespace name"
        yield FieldError.invalid(f"{path}.endpointsNamespace", "", text)
    elif namespace is not None:
        yield from validate_dns_label(namespace, f"{path}.endpointsNamespace")


def _validate_iscsi(source: ISCSIPersistentVolumeSource, name: str, path: str) -> FieldErrors:
    yield from validate_required(source.targetPortal, f"{path}.targetPortal")
    if source.initiatorName is not None and names.size(f"{name}:{source.targetPortal}") > 64:
        yield FieldError.invalid(f"{path}.targetportal", source.targetPortal, _ISCSI_NAME_TOO_LONG_ERROR)
    if not source.iqn:
        yield FieldError.required(f"{path}.iqn")
    else:
        yield from storage.validate_iscsi_form(source.iqn, f"{path}.iqn")
    for text in names.range_errors(source.lun, 0, 255):
        yield FieldError.invalid(f"{path}.lun", source.lun, text)
    if source.secretRef is not None:
        yield from validate_required(source.secretRef.name, f"{path}.secretRef.name")
    elif source.chapAuthDiscovery or source.chapAuthSession:
        yield FieldError.required(f"{path}.secretRef")
    if source.initiatorName is not None:
        yield from storage.validate_iscsi_form(source.initiatorName, f"{path}.initiatorname")


def _validate_cinder(source: CinderPersistentVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.volumeID, f"{path}.volumeID")
    if source.secretRef is not None:
        yield from validate_required(source.secretRef.name, f"{path}.secretRef.name")
        yield from validate_required(source.secretRef.namespace, f"{path}.secretRef.namespace")


def _validate_azure_file(source: AzureFilePersistentVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.secretName, f"{path}.secretName")
    yield from validate_required(source.shareName, f"{path}.shareName")
    if source.secretNamespace == "":
        yield FieldError.required(f"{path}.secretNamespace")


def _validate_local(source: LocalVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.path, f"{path}.path")
    yield from validate_path_no_backsteps(source.path, f"{path}.path")


def _validate_storage_os(source: StorageOSPersistentVolumeSource, path: str) -> FieldErrors:
    yield from storage.validate_storage_os(source, path)
    if source.secretRef is not None:
        yield from validate_required(source.secretRef.namespace, f"{path}.secretRef.namespace")


def _validate_csi(source: CSIPersistentVolumeSource, path: str) -> FieldErrors:
    yield from storage.validate_csi_driver_name(source.driver, f"{path}.driver")
    yield from validate_required(source.volumeHandle, f"{path}.volumeHandle")
    for field in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        secret = getattr(source, f"{field}SecretRef")
        if secret is not None:
            yield from _validate_secret_reference(secret, f"{path}.{field}SecretRef")


def _validate_secret_reference(secret: SecretReference, path: str) -> FieldErrors:
    yield from (
        validate_dns_subdomain(secret.name, f"{path}.name") if secret.name else validate_required("", f"{path}.name")
    )
    yield from (
        validate_dns_label(secret.namespace, f"{path}.namespace")
        if secret.namespace
        else validate_required("", f"{path}.namespace")
    )


def _accept_any(source: Any, path: str) -> FieldErrors:
    yield from ()


_VALIDATIONS: dict[str, Callable[[Any, str], FieldErrors]] = {
    "hostPath": storage.validate_host_path,
    "gcePersistentDisk": storage.validate_gce_disk,
    "awsElasticBlockStore": storage.validate_aws_disk,
    "glusterfs": _validate_glusterfs,
    "flocker": storage.validate_flocker,
    "nfs": storage.validate_nfs,
    "rbd": storage.validate_rbd,
    "quobyte": storage.validate_quobyte,
    "cephfs": storage.validate_cephfs,
    "iscsi": _accept_any,
    "cinder": _validate_cinder,
    "fc": storage.validate_fibre_channel,
    "flexVolume": storage.validate_flex,
    "azureFile": _validate_azure_file,
    "vsphereVolume": storage.validate_vsphere,
    "photonPersistentDisk": storage.validate_photon,
    "portworxVolume": storage.validate_portworx,
    "azureDisk": storage.validate_azure_disk,
    "scaleIO": storage.validate_scale_io,
    "local": _validate_local,
    "storageos": _validate_storage_os,
    "csi": _validate_csi,
}
"""The sources in the order in which they are checked: the first is validated, all others are rejected."""
