"""Validation of the volume sources of PersistentVolumes, where they differ from those of pods."""

from collections.abc import Callable
from typing import Any

from sampan.api import names
from sampan.api.faults import FieldError
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
from sampan.apiserver.registry.podspec import storage_volumes as storage
from sampan.apiserver.registry.podspec.file_paths import no_backsteps
from sampan.apiserver.registry.podspec.formats import Faults, dns_label, dns_subdomain, given

_ONE_TOO_MANY = "may not specify more than 1 volume type"
_LONG_NAME = (
    "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters "
    "if iscsi.initiatorName is specified."
)


def source_faults(spec: PersistentVolumeSpec, name: str, at: str) -> Faults:
    """Yield the errors of the volume's sources. `name` is the name of the volume, "" for an inline volume."""
    fields = [field for field in _SOURCES if getattr(spec, field) is not None]
    for index, field in enumerate(fields):
        if index and field != "flexVolume":
            yield FieldError.forbidden(f"{at}.{'cephFS' if field == 'cephfs' else field}", _ONE_TOO_MANY)
            continue
        yield from _SOURCES[field](getattr(spec, field), f"{at}.{field}")
        if field == "iscsi" and spec.iscsi is not None:
            yield from _iscsi(spec.iscsi, name, f"{at}.iscsi")
        elif field == "local" and spec.nodeAffinity is None:
            yield FieldError.required(f"{at}.nodeAffinity", "Local volume requires node affinity")
    if not fields:
        yield FieldError.required(at, "must specify a volume type")


def _glusterfs(source: GlusterfsPersistentVolumeSource, at: str) -> Faults:
    yield from given(source.endpoints, f"{at}.endpoints")
    yield from given(source.path, f"{at}.path")
    namespace = source.endpointsNamespace
    if namespace == "":
        text = "if the endpointnamespace is set, it must be a valid namespace name"
        yield FieldError.invalid(f"{at}.endpointsNamespace", "", text)
    elif namespace is not None:
        yield from dns_label(namespace, f"{at}.endpointsNamespace")


def _iscsi(source: ISCSIPersistentVolumeSource, name: str, at: str) -> Faults:
    yield from given(source.targetPortal, f"{at}.targetPortal")
    if source.initiatorName is not None and names.size(f"{name}:{source.targetPortal}") > 64:
        yield FieldError.invalid(f"{at}.targetportal", source.targetPortal, _LONG_NAME)
    if not source.iqn:
        yield FieldError.required(f"{at}.iqn")
    else:
        yield from storage.iscsi_form(source.iqn, f"{at}.iqn")
    for text in names.in_range(source.lun, 0, 255):
        yield FieldError.invalid(f"{at}.lun", source.lun, text)
    if source.secretRef is not None:
        yield from given(source.secretRef.name, f"{at}.secretRef.name")
    elif source.chapAuthDiscovery or source.chapAuthSession:
        yield FieldError.required(f"{at}.secretRef")
    if source.initiatorName is not None:
        yield from storage.iscsi_form(source.initiatorName, f"{at}.initiatorname")


def _cinder(source: CinderPersistentVolumeSource, at: str) -> Faults:
    yield from given(source.volumeID, f"{at}.volumeID")
    if source.secretRef is not None:
        yield from given(source.secretRef.name, f"{at}.secretRef.name")
        yield from given(source.secretRef.namespace, f"{at}.secretRef.namespace")


def _azure_file(source: AzureFilePersistentVolumeSource, at: str) -> Faults:
    yield from given(source.secretName, f"{at}.secretName")
    yield from given(source.shareName, f"{at}.shareName")
    if source.secretNamespace == "":
        yield FieldError.required(f"{at}.secretNamespace")


def _local(source: LocalVolumeSource, at: str) -> Faults:
    yield from given(source.path, f"{at}.path")
    yield from no_backsteps(source.path, f"{at}.path")


def _storage_os(source: StorageOSPersistentVolumeSource, at: str) -> Faults:
    yield from storage.storage_os(source, at)
    if source.secretRef is not None:
        yield from given(source.secretRef.namespace, f"{at}.secretRef.namespace")


def _csi(source: CSIPersistentVolumeSource, at: str) -> Faults:
    yield from storage.csi_driver_name(source.driver, f"{at}.driver")
    yield from given(source.volumeHandle, f"{at}.volumeHandle")
    for field in ("controllerPublish", "controllerExpand", "nodePublish", "nodeExpand"):
        secret = getattr(source, f"{field}SecretRef")
        if secret is not None:
            yield from _secret(secret, f"{at}.{field}SecretRef")


def _secret(secret: SecretReference, at: str) -> Faults:
    yield from dns_subdomain(secret.name, f"{at}.name") if secret.name else given("", f"{at}.name")
    yield from dns_label(secret.namespace, f"{at}.namespace") if secret.namespace else given("", f"{at}.namespace")


def _nothing(source: Any, at: str) -> Faults:
    yield from ()


_SOURCES: dict[str, Callable[[Any, str], Faults]] = {
    "hostPath": storage.host_path,
    "gcePersistentDisk": storage.gce_disk,
    "awsElasticBlockStore": storage.aws_disk,
    "glusterfs": _glusterfs,
    "flocker": storage.flocker,
    "nfs": storage.nfs,
    "rbd": storage.rbd,
    "quobyte": storage.quobyte,
    "cephfs": storage.cephfs,
    "iscsi": _nothing,
    "cinder": _cinder,
    "fc": storage.fibre_channel,
    "flexVolume": storage.flex,
    "azureFile": _azure_file,
    "vsphereVolume": storage.vsphere,
    "photonPersistentDisk": storage.photon,
    "portworxVolume": storage.portworx,
    "azureDisk": storage.azure_disk,
    "scaleIO": storage.scale_io,
    "local": _local,
    "storageos": _storage_os,
    "csi": _csi,
}
"""The sources in the order in which they are checked: the first is validated, all others are rejected."""
