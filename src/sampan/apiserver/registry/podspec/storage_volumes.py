"""Validation of volume sources that PersistentVolumes have as well, most of them of in-tree storage plug-ins."""

import re
import string
from collections.abc import Callable

from sampan.api import names
from sampan.api.faults import FieldError
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
from sampan.apiserver.registry.podspec.file_paths import descending, no_backsteps
from sampan.apiserver.registry.podspec.formats import Faults, dns_label, given, optional_one_of

_PARTITION = names.out_of_range(1, 255)
_LUN = names.out_of_range(0, 255)
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


def host_path(source: HostPathVolumeSource, at: str) -> Faults:
    if not source.path:
        yield FieldError.required(f"{at}.path")
        return
    yield from no_backsteps(source.path, f"{at}.path")
    yield from optional_one_of(source.type, _HOST_PATH_TYPES, f"{at}.type")


def git_repo(source: GitRepoVolumeSource, at: str) -> Faults:
    yield from given(source.repository, f"{at}.repository")
    yield from descending(source.directory, f"{at}.directory")


def gce_disk(source: GCEPersistentDiskVolumeSource, at: str) -> Faults:
    at = at.removesuffix("gcePersistentDisk") + "persistentDisk"
    yield from given(source.pdName, f"{at}.pdName")
    yield from _partition(source.partition, at)


def aws_disk(source: AWSElasticBlockStoreVolumeSource, at: str) -> Faults:
    yield from given(source.volumeID, f"{at}.volumeID")
    yield from _partition(source.partition, at)


def _partition(partition: int, at: str) -> Faults:
    if not 0 <= partition <= 255:
        yield FieldError.invalid(f"{at}.partition", partition, _PARTITION)


def nfs(source: NFSVolumeSource, at: str) -> Faults:
    yield from given(source.server, f"{at}.server")
    yield from given(source.path, f"{at}.path")
    if not source.path.startswith("/"):
        yield FieldError.invalid(f"{at}.path", source.path, "must be an absolute path")


def iscsi(source: ISCSIVolumeSource, at: str) -> Faults:
    yield from given(source.targetPortal, f"{at}.targetPortal")
    if not source.iqn:
        yield FieldError.required(f"{at}.iqn")
    else:
        yield from _iscsi_form(source.iqn, f"{at}.iqn")
    if not 0 <= source.lun <= 255:
        yield FieldError.invalid(f"{at}.lun", source.lun, _LUN)
    if (source.chapAuthDiscovery or source.chapAuthSession) and source.secretRef is None:
        yield FieldError.required(f"{at}.secretRef")
    if source.initiatorName is not None:
        yield from _iscsi_form(source.initiatorName, f"{at}.initiatorname")


def _iscsi_form(name: str, at: str) -> Faults:
    if name[:3] not in _NAME_FORMS:
        yield FieldError.invalid(at, name, "must be valid format starting with iqn, eui, or naa")
    else:
        yield from iscsi_form(name, at)


def iscsi_form(name: str, at: str) -> Faults:
    form = _NAME_FORMS.get(name[:3])
    if form is None or not form(name):
        yield FieldError.invalid(at, name, "must be valid format")


def iscsi_name(volume: Volume, at: str) -> Faults:
    source = volume.iscsi
    if source is None or source.initiatorName is None:
        return
    if len(f"{volume.name}:{source.targetPortal}") > 64:
        text = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName "
            "is specified."
        )
        yield FieldError.invalid(f"{at}.name", volume.name, text)


def glusterfs(source: GlusterfsVolumeSource, at: str) -> Faults:
    yield from given(source.endpoints, f"{at}.endpoints")
    yield from given(source.path, f"{at}.path")


def flocker(source: FlockerVolumeSource, at: str) -> Faults:
    if not source.datasetName and not source.datasetUUID:
        yield FieldError.required(at, "one of datasetName and datasetUUID is required")
    if source.datasetName and source.datasetUUID:
        text = "datasetName and datasetUUID can not be specified simultaneously"
        yield FieldError.invalid(at, "resource", text)
    if "/" in source.datasetName:
        yield FieldError.invalid(f"{at}.datasetName", source.datasetName, "must not contain '/'")


def rbd(source: RBDVolumeSource, at: str) -> Faults:
    yield from given(source.monitors, f"{at}.monitors")
    yield from given(source.image, f"{at}.image")


def cinder(source: CinderVolumeSource, at: str) -> Faults:
    yield from given(source.volumeID, f"{at}.volumeID")
    if source.secretRef is not None:
        yield from given(source.secretRef.name, f"{at}.secretRef.name")


def cephfs(source: CephFSVolumeSource, at: str) -> Faults:
    yield from given(source.monitors, f"{at}.monitors")


def quobyte(source: QuobyteVolumeSource, at: str) -> Faults:
    text = "must be a host:port pair or multiple pairs separated by commas"
    if not source.registry:
        yield FieldError.required(f"{at}.registry", text)
    elif len(source.tenant) >= 65:
        yield FieldError.required(f"{at}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    else:
        for pair in source.registry.split(","):
            if not _is_host_and_port(pair):
                yield FieldError.invalid(f"{at}.registry", source.registry, text)
    yield from given(source.volume, f"{at}.volume")


_is_host_and_port = re.compile(r"(?:\[[^\[\]]*\]|[^:\[\]]*):[^:\[\]]*").fullmatch


def fibre_channel(source: FCVolumeSource, at: str) -> Faults:
    if not source.targetWWNs and not source.wwids:
        yield FieldError.required(f"{at}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if source.targetWWNs and source.wwids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        yield FieldError.invalid(f"{at}.targetWWNs", source.targetWWNs, text)
    if not source.targetWWNs:
        return
    if source.lun is None:
        yield FieldError.required(f"{at}.lun", "lun is required if targetWWNs is specified")
    elif not 0 <= source.lun <= 255:
        yield FieldError.invalid(f"{at}.lun", source.lun, _LUN)


def flex(source: FlexVolumeSource, at: str) -> Faults:
    yield from given(source.driver, f"{at}.driver")
    for key in sorted(source.options):
        owner = f".{key.partition('/')[0].lower()}"
        if owner.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            yield FieldError.invalid(f"{at}.options[{key}]", key, text)


def azure_file(source: AzureFileVolumeSource, at: str) -> Faults:
    yield from given(source.secretName, f"{at}.secretName")
    yield from given(source.shareName, f"{at}.shareName")


_MANAGED_URI = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB_URI = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"


def azure_disk(source: AzureDiskVolumeSource, at: str) -> Faults:
    yield from given(source.diskName, f"{at}.diskName")
    yield from given(source.diskURI, f"{at}.diskURI")
    yield from optional_one_of(source.cachingMode, ("None", "ReadOnly", "ReadWrite"), f"{at}.cachingMode")
    yield from optional_one_of(source.kind, ("Dedicated", "Managed", "Shared"), f"{at}.kind")
    if source.kind is None:
        return
    start, form = ("/subscriptions/", _MANAGED_URI) if source.kind == "Managed" else ("https://", _BLOB_URI)
    if not source.diskURI.startswith(start):
        yield FieldError.not_supported(f"{at}.diskURI", source.diskURI, [form])


def vsphere(source: VsphereVirtualDiskVolumeSource, at: str) -> Faults:
    yield from given(source.volumePath, f"{at}.volumePath")


def photon(source: PhotonPersistentDiskVolumeSource, at: str) -> Faults:
    yield from given(source.pdID, f"{at}.pdID")


def portworx(source: PortworxVolumeSource, at: str) -> Faults:
    yield from given(source.volumeID, f"{at}.volumeID")


def scale_io(source: ScaleIOVolumeSource, at: str) -> Faults:
    yield from given(source.gateway, f"{at}.gateway")
    yield from given(source.system, f"{at}.system")
    yield from given(source.volumeName, f"{at}.volumeName")


def storage_os(source: StorageOSVolumeSource | StorageOSPersistentVolumeSource, at: str) -> Faults:
    yield from given(source.volumeName, f"{at}.volumeName")
    if source.volumeName:
        yield from dns_label(source.volumeName, f"{at}.volumeName")
    if source.volumeNamespace:
        yield from dns_label(source.volumeNamespace, f"{at}.volumeNamespace")
    if source.secretRef is not None:
        yield from given(source.secretRef.name, f"{at}.secretRef.name")


def csi(source: CSIVolumeSource, at: str) -> Faults:
    yield from csi_driver_name(source.driver, f"{at}.driver")
    if source.nodePublishSecretRef is None:
        return
    name = source.nodePublishSecretRef.name
    if not name:
        yield FieldError.required(f"{at}.nodePublishSecretRef.name")
        return
    for text in names.dns1123_subdomain(name):
        yield FieldError.invalid(f"{at}.name", name, text)


def csi_driver_name(name: str, at: str) -> Faults:
    if not name:
        yield FieldError.required(at)
        return
    if len(name) > 63:
        yield FieldError.too_long(at, 63)
    for text in names.dns1123_subdomain(name.lower()):
        yield FieldError.invalid(at, name, text)
