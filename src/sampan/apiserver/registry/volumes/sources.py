"""Validation of the volume sources of PersistentVolumes, where they differ from those of pods."""

from collections.abc import Callable
from typing import Any

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import (
    AzureFilePersistentVolumeSource,
    CinderPersistentVolumeSource,
    CSIPersistentVolumeSource,
    GlusterfsPersistentVolumeSource,
    ISCSIPersistentVolumeSource,
    LocalVolumeSource,
    PersistentVolumeSpec,
    SecretReference,
    StorageOSPersistentVolumeSource,
)
from sampan.apiserver.registry.podspec.volumes import sources as storage
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_label,
    validate_dns_subdomain,
    validate_path_no_backsteps,
    validate_required,
)

_ONE_TOO_MANY = "may not specify more than 1 volume type"
_LONG_NAME = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)


def validate_persistent_volume_source(spec: PersistentVolumeSpec, name: str, at: str) -> FieldErrors:
    """Yield the errors of the volume's sources. `name` is the name of the volume, "" for an inline volume."""
    fields = [field for field in _SOURCES if getattr(spec, field) is not None]
    for index, field in enumerate(fields):
        if index and field != "flexVolume":
            yield FieldError.forbidden(f"{at}.{'cephFS' if field == 'cephfs' else field}", _ONE_TOO_MANY)
            continue
        yield from _SOURCES[field](getattr(spec, field), f"{at}.{field}")
        if field == "iscsi" and spec.iscsi is not None:
            yield from _validate_iscsi(spec.iscsi, name, f"{at}.iscsi")
        elif field == "local" and spec.nodeAffinity is None:
            yield FieldError.required(f"{at}.nodeAffinity", "Local volume requires node affinity")
    if not fields:
        yield FieldError.required(at, "must specify a volume type")


def _validate_glusterfs(source: GlusterfsPersistentVolumeSource, at: str) -> FieldErrors:
    yield from validate_required(source.endpoints, f"{at}.endpoints")
    yield from validate_required(source.path, f"{at}.path")
    namespace = source.endpointsNamespace
    if namespace == "":
        text = "if the endpointnamespace is set, it must be a valid namespace name"
        yield FieldError.invalid(f"{at}.endpointsNamespace", "", text)
    elif namespace is not None:
        yield from validate_dns_label(namespace, f"{at}.endpointsNamespace")


def _validate_iscsi(source: ISCSIPersistentVolumeSource, name: str, at: str) -> FieldErrors:
    yield from validate_required(source.targetPortal, f"{at}.targetPortal")
    if source.initiatorName is not None and names.size(f"{name}:{source.targetPortal}") > 64:
        yield FieldError.invalid(f"{at}.targetportal", source.targetPortal, _LONG_NAME)
    if not source.iqn:
        yield FieldError.required(f"{at}.iqn")
    else:
        yield from storage.validate_iscsi_form(source.iqn, f"{at}.iqn")
    for text in names.in_range(source.lun, 0, 255):
        yield FieldError.invalid(f"{at}.lun", source.lun, text)
    if source.secretRef is not None:
        yield from validate_required(source.secretRef.name, f"{at}.secretRef.name")
    elif source.chapAuthDiscovery or source.chapAuthSession:
        yield FieldError.required(f"{at}.secretRef")
    if source.initiatorName is not None:
        yield from storage.validate_iscsi_form(source.initiatorName, f"{at}.initiatorname")


def _validate_cinder(source: CinderPersistentVolumeSource, at: str) -> FieldErrors:
    yield from validate_required(source.volumeID, f"{at}.volumeID")
    if source.secretRef is not None:
        yield from validate_required(source.secretRef.name, f"{at}.secretRef.name")
        yield from validate_required(source.secretRef.namespace, f"{at}.secretRef.namespace")


def _validate_azure_file(source: AzureFilePersistentVolumeSource, at: str) -> FieldErrors:
    yield from validate_required(source.secretName, f"{at}.secretName")
    yield from validate_required(source.shareName, f"{at}.shareName")
    if source.secretNamespace == "":
        yield FieldError.required(f"{at}.secretNamespace")


def _validate_local(source: LocalVolumeSource, at: str) -> FieldErrors:
    yield from validate_required(source.path, f"{at}.path")
    yield from validate_path_no_backsteps(source.path, f"{at}.path")


def _validate_storage_os(source: StorageOSPersistentVolumeSource, at: str) -> FieldErrors:
    yield from storage.validate_storage_os(source, at)
    if source.secretRef is not None:
        yield from validate_required(source.secretRef.namespace, f"{at}.secretRef.namespace")


def _validate_csi(source: CSIPersistentVolumeSource, at: str) -> FieldErrors:
    yield from storage.validate_csi_driver_name(source.driver, f"{at}.driver")
    yield from validate_required(source.volumeHandle, f"{at}.volumeHandle")
    for field in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        secret = getattr(source, f"{field}SecretRef")
        if secret is not None:
            yield from _validate_secret_reference(secret, f"{at}.{field}SecretRef")


def _validate_secret_reference(secret: SecretReference, at: str) -> FieldErrors:
    yield from validate_dns_subdomain(secret.name, f"{at}.name") if secret.name else validate_required("", f"{at}.name")
    yield from (
        validate_dns_label(secret.namespace, f"{at}.namespace")
        if secret.namespace
        else validate_required("", f"{at}.namespace")
    )


def _accept_any(source: Any, at: str) -> FieldErrors:
    yield from ()


_SOURCES: dict[str, Callable[[Any, str], FieldErrors]] = {
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
