"""Validation of volume sources that PersistentVolumes have as well, most of them of in-tree storage plugins."""

import re
import string
from collections.abc import Callable

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.types.core_v1 import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CephFSVolumeSource,
    CinderVolumeSource,
    CSIVolumeSource,
    FCVolumeSource,
    FlexVolumeSource,
    FlockerVolumeSource,
    GCEPersistentDiskVolumeSource,
    GitRepoVolumeSource,
    GlusterfsVolumeSource,
    HostPathVolumeSource,
    ISCSIVolumeSource,
    NFSVolumeSource,
    PhotonPersistentDiskVolumeSource,
    PortworxVolumeSource,
    QuobyteVolumeSource,
    RBDVolumeSource,
    ScaleIOVolumeSource,
    StorageOSPersistentVolumeSource,
    StorageOSVolumeSource,
    Volume,
    VsphereVirtualDiskVolumeSource,
)
from sampan.apiserver.registry.validation import (
    FieldErrors,
    validate_dns_label,
    validate_local_descending_path,
    validate_optional_one_of,
    validate_path_no_backsteps,
    validate_required,
)

_PARTITION = names.out_of_range_message(1, 255)
_LUN = names.out_of_range_message(0, 255)
_IQN_LETTERS = string.ascii_letters + string.digits + "-."
_starts_iqn = re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[a-zA-Z0-9\-.]", re.ASCII).search
_not_in_iqn = re.compile(r"[,;*&$|\s]", re.ASCII).finditer


def _has_iqn(text: str) -> bool:
    """Whether the text ends in `iqn.yyyy-mm.naming-authority:unique-name`.

    kube-apiserver uses a regular expression, which takes quadratic time in Python. Here each part before a colon is
    examined once.
    """
    name_start = max([match.end() for match in _not_in_iqn(text)], default=0)
    end = 0
    for part in text.split(":")[:-1]:
        end += len(part) + 1
        authority = part[len(part.rstrip(_IQN_LETTERS)) :]
        if name_start <= end < len(text) and _starts_iqn(authority):
            return True
    return False


_NAME_FORMS: dict[str, Callable[[str], object]] = {
    "iqn": _has_iqn,
    "eui": re.compile(r"eui.[a-zA-Z0-9]{16}\Z", re.ASCII).match,
    "naa": re.compile(r"naa.[a-zA-Z0-9]{32}\Z", re.ASCII).match,
}


_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)


def validate_host_path(source: HostPathVolumeSource, path: str) -> FieldErrors:
    if not source.path:
        yield FieldError.required(f"{path}.path")
        return
    yield from validate_path_no_backsteps(source.path, f"{path}.path")
    yield from validate_optional_one_of(source.type, _HOST_PATH_TYPES, f"{path}.type")


def validate_git_repo(source: GitRepoVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.repository, f"{path}.repository")
    yield from validate_local_descending_path(source.directory, f"{path}.directory")


def validate_gce_disk(source: GCEPersistentDiskVolumeSource, path: str) -> FieldErrors:
    path = path.removesuffix("gcePersistentDisk") + "persistentDisk"
    yield from validate_required(source.pdName, f"{path}.pdName")
    yield from _validate_partition(source.partition, path)


def validate_aws_disk(source: AWSElasticBlockStoreVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.volumeID, f"{path}.volumeID")
    yield from _validate_partition(source.partition, path)


def _validate_partition(partition: int, path: str) -> FieldErrors:
    if not 0 <= partition <= 255:
        yield FieldError.invalid(f"{path}.partition", partition, _PARTITION)


def validate_nfs(source: NFSVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.server, f"{path}.server")
    yield from validate_required(source.path, f"{path}.path")
    if not source.path.startswith("/"):
        yield FieldError.invalid(f"{path}.path", source.path, "must be an absolute path")


def validate_iscsi(source: ISCSIVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.targetPortal, f"{path}.targetPortal")
    if not source.iqn:
        yield FieldError.required(f"{path}.iqn")
    else:
        yield from _validate_iscsi_form(source.iqn, f"{path}.iqn")
    if not 0 <= source.lun <= 255:
        yield FieldError.invalid(f"{path}.lun", source.lun, _LUN)
    if (source.chapAuthDiscovery or source.chapAuthSession) and source.secretRef is None:
        yield FieldError.required(f"{path}.secretRef")
    if source.initiatorName is not None:
        yield from _validate_iscsi_form(source.initiatorName, f"{path}.initiatorname")


def _validate_iscsi_form(name: str, path: str) -> FieldErrors:
    if name[:3] not in _NAME_FORMS:
        yield FieldError.invalid(path, name, "must be valid format starting with iqn, eui, or naa")
    else:
        yield from validate_iscsi_form(name, path)


def validate_iscsi_form(name: str, path: str) -> FieldErrors:
    form = _NAME_FORMS.get(name[:3])
    if form is None or not form(name):
        yield FieldError.invalid(path, name, "must be valid format")


def validate_iscsi_name(volume: Volume, path: str) -> FieldErrors:
    source = volume.iscsi
    if source is None or source.initiatorName is None:
        return
    if len(f"{volume.name}:{source.targetPortal}") > 64:
        text = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName "
            "is specified."
        )
        yield FieldError.invalid(f"{path}.name", volume.name, text)


def validate_glusterfs(source: GlusterfsVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.endpoints, f"{path}.endpoints")
    yield from validate_required(source.path, f"{path}.path")


def validate_flocker(source: FlockerVolumeSource, path: str) -> FieldErrors:
    if not source.datasetName and not source.datasetUUID:
        yield FieldError.required(path, "one of datasetName and datasetUUID is required")
    if source.datasetName and source.datasetUUID:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        yield FieldError.invalid(path, "resource", text)
    if "/" in source.datasetName:
        yield FieldError.invalid(f"{path}.datasetName", source.datasetName, "must not contain '/'")


def validate_rbd(source: RBDVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.monitors, f"{path}.monitors")
    yield from validate_required(source.image, f"{path}.image")


def validate_cinder(source: CinderVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.volumeID, f"{path}.volumeID")
    if source.secretRef is not None:
        yield from validate_required(source.secretRef.name, f"{path}.secretRef.name")


def validate_cephfs(source: CephFSVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.monitors, f"{path}.monitors")


def validate_quobyte(source: QuobyteVolumeSource, path: str) -> FieldErrors:
    text = "must be a host:port pair or multiple pairs separated by commas"
    if not source.registry:
        yield FieldError.required(f"{path}.registry", text)
    elif len(source.tenant) >= 65:
        yield FieldError.required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    else:
        for pair in source.registry.split(","):
            if not _is_host_and_port(pair):
                yield FieldError.invalid(f"{path}.registry", source.registry, text)
    yield from validate_required(source.volume, f"{path}.volume")


_is_host_and_port = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*").fullmatch


def validate_fibre_channel(source: FCVolumeSource, path: str) -> FieldErrors:
    if not source.targetWWNs and not source.wwids:
        yield FieldError.required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if source.targetWWNs and source.wwids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        yield FieldError.invalid(f"{path}.targetWWNs", source.targetWWNs, text)
    if not source.targetWWNs:
        return
    if source.lun is None:
        yield FieldError.required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif not 0 <= source.lun <= 255:
        yield FieldError.invalid(f"{path}.lun", source.lun, _LUN)


def validate_flex(source: FlexVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.driver, f"{path}.driver")
    for key in sorted(source.options):
        owner = f".{key.partition('/')[0].lower()}"
        if owner.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            yield FieldError.invalid(f"{path}.options[{key}]", key, text)


def validate_azure_file(source: AzureFileVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.secretName, f"{path}.secretName")
    yield from validate_required(source.shareName, f"{path}.shareName")


_MANAGED_URI = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_URI = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def validate_azure_disk(source: AzureDiskVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.diskName, f"{path}.diskName")
    yield from validate_required(source.diskURI, f"{path}.diskURI")
    yield from validate_optional_one_of(source.cachingMode, ("None", "ReadOnly", "ReadWrite"), f"{path}.cachingMode")
    yield from validate_optional_one_of(source.kind, ("Dedicated", "Managed", "Shared"), f"{path}.kind")
    if source.kind is None:
        return
    start, form = ("/subscriptions/", _MANAGED_URI) if source.kind == "Managed" else ("https://", _BLOB_URI)
    if not source.diskURI.startswith(start):
        yield FieldError.not_supported(f"{path}.diskURI", source.diskURI, [form])


def validate_vsphere(source: VsphereVirtualDiskVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.volumePath, f"{path}.volumePath")


def validate_photon(source: PhotonPersistentDiskVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.pdID, f"{path}.pdID")


def validate_portworx(source: PortworxVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.volumeID, f"{path}.volumeID")


def validate_scale_io(source: ScaleIOVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.gateway, f"{path}.gateway")
    yield from validate_required(source.system, f"{path}.system")
    yield from validate_required(source.volumeName, f"{path}.volumeName")


def validate_storage_os(source: StorageOSVolumeSource | StorageOSPersistentVolumeSource, path: str) -> FieldErrors:
    yield from validate_required(source.volumeName, f"{path}.volumeName")
    if source.volumeName:
        yield from validate_dns_label(source.volumeName, f"{path}.volumeName")
    if source.volumeNamespace:
        yield from validate_dns_label(source.volumeNamespace, f"{path}.volumeNamespace")
    if source.secretRef is not None:
        yield from validate_required(source.secretRef.name, f"{path}.secretRef.name")


def validate_csi(source: CSIVolumeSource, path: str) -> FieldErrors:
    yield from validate_csi_driver_name(source.driver, f"{path}.driver")
    if source.nodePublishSecretRef is None:
        return
    name = source.nodePublishSecretRef.name
    if not name:
        yield FieldError.required(f"{path}.nodePublishSecretRef.name")
        return
    for text in names.dns1123_subdomain(name):
        yield FieldError.invalid(f"{path}.name", name, text)


def validate_csi_driver_name(name: str, path: str) -> FieldErrors:
    if not name:
        yield FieldError.required(path)
        return
    if len(name) > 63:
        yield FieldError.too_long(path, 63)
    for text in names.dns1123_subdomain(name.lower()):
        yield FieldError.invalid(path, name, text)
