"""Descriptions of the sources of volumes, of pods as well as of PersistentVolumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.kubectl.describers.layout import (
    NONE,
    UNSET,
    Lines,
    Value,
    annotation_lines,
    go_struct,
    go_text,
    items,
    label_lines,
    optional_text,
    part,
    truncate,
)

Field = str | tuple[str, Callable[[Value], str]]


@dataclass(frozen=True, slots=True)
class VolumeSourceFormat:
    """The name of a volume type and the fields of its source. A field is `Title:field`, or a title with a function of
    the source."""

    type: str
    fields: tuple[Field, ...] = ()


def _field_or_default(field: str, default: str) -> Callable[[Value], str]:
    return lambda source: go_text(source[field]) if source.get(field) is not None else default


def _join_items(field: str) -> Callable[[Value], str]:
    return lambda source: ", ".join(source.get(field) or ())


def _list(field: str) -> Callable[[Value], str]:
    return lambda source: go_text(source.get(field) or [])


def _map(field: str) -> Callable[[Value], str]:
    return lambda source: go_text(source.get(field) or {})


def _bool(field: str) -> Callable[[Value], str]:
    return lambda source: go_text(bool(source.get(field)))


def _number(field: str) -> Callable[[Value], str]:
    return lambda source: str(source.get(field) or 0)


def _secret(name: str) -> Callable[[Value], str]:
    def text(source: Value) -> str:
        ref = source.get("secretRef")
        if ref is not None and "namespace" in ref:
            return go_struct("SecretReference", ref, "name", "namespace")
        return go_struct(name, ref, "name") if ref is not None else "nil"

    return text


_READ_ONLY: Field = ("ReadOnly", _bool("readOnly"))
_SECRET: Field = ("SecretRef", _secret("LocalObjectReference"))
_DISK: tuple[Field, ...] = ("FSType:fsType", ("Partition", _number("partition")), _READ_ONLY)

FORMATS: dict[str, VolumeSourceFormat] = {
    "hostPath": VolumeSourceFormat(
        "HostPath (bare host directory volume)", ("Path:path", ("HostPathType", _field_or_default("type", NONE)))
    ),
    "emptyDir": VolumeSourceFormat(
        "EmptyDir (a temporary directory that shares a pod's lifetime)",
        (
            "Medium:medium",
            ("SizeLimit", lambda source: UNSET if source.get("sizeLimit") in (None, "0") else source["sizeLimit"]),
        ),
    ),
    "gcePersistentDisk": VolumeSourceFormat(
        "GCEPersistentDisk (a Persistent Disk resource in Google Compute Engine)", ("PDName:pdName", *_DISK)
    ),
    "awsElasticBlockStore": VolumeSourceFormat(
        "AWSElasticBlockStore (a Persistent Disk resource in AWS)", ("VolumeID:volumeID", *_DISK)
    ),
    "gitRepo": VolumeSourceFormat(
        "GitRepo (a volume that is pulled from git when the pod is created)",
        ("Repository:repository", "Revision:revision"),
    ),
    "secret": VolumeSourceFormat(
        "Secret (a volume populated by a Secret)", ("SecretName:secretName", ("Optional", optional_text))
    ),
    "configMap": VolumeSourceFormat(
        "ConfigMap (a volume populated by a ConfigMap)", ("Name:name", ("Optional", optional_text))
    ),
    "nfs": VolumeSourceFormat(
        "NFS (an NFS mount that lasts the lifetime of a pod)", ("Server:server", "Path:path", _READ_ONLY)
    ),
    "iscsi": VolumeSourceFormat(
        "ISCSI (an ISCSI Disk resource that is attached to a kubelet's host machine and then exposed to the pod)",
        (
            "TargetPortal:targetPortal",
            "IQN:iqn",
            ("Lun", _number("lun")),
            ("ISCSIInterface", _field_or_default("iscsiInterface", "")),
            "FSType:fsType",
            _READ_ONLY,
            ("Portals", _list("portals")),
            ("DiscoveryCHAPAuth", _bool("chapAuthDiscovery")),
            ("SessionCHAPAuth", _bool("chapAuthSession")),
            _SECRET,
            ("InitiatorName", _field_or_default("initiatorName", NONE)),
        ),
    ),
    "glusterfs": VolumeSourceFormat(
        "Glusterfs (a Glusterfs mount on the host that shares a pod's lifetime)",
        ("EndpointsName:endpoints", "Path:path", _READ_ONLY),
    ),
    "persistentVolumeClaim": VolumeSourceFormat(
        "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
        ("ClaimName:claimName", _READ_ONLY),
    ),
    "ephemeral": VolumeSourceFormat(
        "EphemeralVolume (an inline specification for a volume that gets created and deleted with the pod)"
    ),
    "rbd": VolumeSourceFormat(
        "RBD (a Rados Block Device mount on the host that shares a pod's lifetime)",
        (
            ("CephMonitors", _list("monitors")),
            "RBDImage:image",
            "FSType:fsType",
            "RBDPool:pool",
            "RadosUser:user",
            "Keyring:keyring",
            _SECRET,
            _READ_ONLY,
        ),
    ),
    "quobyte": VolumeSourceFormat(
        "Quobyte (a Quobyte mount on the host that shares a pod's lifetime)",
        ("Registry:registry", "Volume:volume", _READ_ONLY),
    ),
    "downwardAPI": VolumeSourceFormat("DownwardAPI (a volume populated by information about the pod)"),
    "azureDisk": VolumeSourceFormat(
        "AzureDisk (an Azure Data Disk mount on the host and bind mount to the pod)",
        (
            "DiskName:diskName",
            "DiskURI:diskURI",
            ("Kind: ", _field_or_default("kind", "")),
            "FSType:fsType",
            "CachingMode:cachingMode",
            _READ_ONLY,
        ),
    ),
    "vsphereVolume": VolumeSourceFormat(
        "vSphereVolume (a Persistent Disk resource in vSphere)",
        ("VolumePath:volumePath", "FSType:fsType", "StoragePolicyName:storagePolicyName"),
    ),
    "cinder": VolumeSourceFormat(
        "Cinder (a Persistent Disk resource in OpenStack)", ("VolumeID:volumeID", "FSType:fsType", _READ_ONLY, _SECRET)
    ),
    "photonPersistentDisk": VolumeSourceFormat(
        "PhotonPersistentDisk (a Persistent Disk resource in photon platform)", ("PdID:pdID", "FSType:fsType")
    ),
    "portworxVolume": VolumeSourceFormat("PortworxVolume (a Portworx Volume resource)", ("VolumeID:volumeID",)),
    "scaleIO": VolumeSourceFormat(
        "ScaleIO (a persistent volume backed by a block device in ScaleIO)",
        (
            "Gateway:gateway",
            "System:system",
            "Protection Domain:protectionDomain",
            "Storage Pool:storagePool",
            "Storage Mode:storageMode",
            "VolumeName:volumeName",
            "FSType:fsType",
            _READ_ONLY,
        ),
    ),
    "local": VolumeSourceFormat("LocalVolume (a persistent volume backed by local storage on a node)", ("Path:path",)),
    "cephfs": VolumeSourceFormat(
        "CephFS (a CephFS mount on the host that shares a pod's lifetime)",
        (
            ("Monitors", _list("monitors")),
            "Path:path",
            "User:user",
            "SecretFile:secretFile",
            _SECRET,
            _READ_ONLY,
        ),
    ),
    "storageos": VolumeSourceFormat(
        "StorageOS (a StorageOS Persistent Disk resource)",
        ("VolumeName:volumeName", "VolumeNamespace:volumeNamespace", "FSType:fsType", _READ_ONLY),
    ),
    "fc": VolumeSourceFormat(
        "FC (a Fibre Channel disk)",
        (
            ("TargetWWNs", _join_items("targetWWNs")),
            ("LUN", _field_or_default("lun", NONE)),
            "FSType:fsType",
            _READ_ONLY,
        ),
    ),
    "azureFile": VolumeSourceFormat(
        "AzureFile (an Azure File Service mount on the host and bind mount to the pod)",
        ("SecretName:secretName", "ShareName:shareName", _READ_ONLY),
    ),
    "flexVolume": VolumeSourceFormat(
        "FlexVolume (a generic volume resource that is provisioned/attached using an exec based plugin)",
        ("Driver:driver", "FSType:fsType", _SECRET, _READ_ONLY, ("Options", _map("options"))),
    ),
    "flocker": VolumeSourceFormat(
        "Flocker (a Flocker volume mounted by the Flocker agent)",
        ("DatasetName:datasetName", "DatasetUUID:datasetUUID"),
    ),
    "projected": VolumeSourceFormat("Projected (a volume that contains injected data from multiple sources)"),
    "csi": VolumeSourceFormat(
        "CSI (a Container Storage Interface (CSI) volume source)",
        ("Driver:driver", "FSType:fsType", _READ_ONLY),
    ),
    "image": VolumeSourceFormat(
        "Image (a container image or OCI artifact)", ("Reference:reference", "PullPolicy:pullPolicy")
    ),
}
PERSISTENT_FORMATS: dict[str, VolumeSourceFormat] = FORMATS | {
    "glusterfs": VolumeSourceFormat(
        FORMATS["glusterfs"].type,
        (
            "EndpointsName:endpoints",
            ("EndpointsNamespace", _field_or_default("endpointsNamespace", UNSET)),
            "Path:path",
            _READ_ONLY,
        ),
    ),
    "azureFile": VolumeSourceFormat(
        FORMATS["azureFile"].type,
        ("SecretName:secretName", "SecretNamespace:secretNamespace", "ShareName:shareName", _READ_ONLY),
    ),
    "scaleIO": VolumeSourceFormat(
        FORMATS["scaleIO"].type,
        (
            *FORMATS["scaleIO"].fields[:6],
            ("SecretName", lambda source: part(source, "secretRef").get("name", "")),
            ("SecretNamespace", lambda source: part(source, "secretRef").get("namespace", "")),
            *FORMATS["scaleIO"].fields[6:],
        ),
    ),
    "csi": VolumeSourceFormat(
        FORMATS["csi"].type, ("Driver:driver", "FSType:fsType", "VolumeHandle:volumeHandle", _READ_ONLY)
    ),
}


def volumes(entries: Sequence[Value], indent: str) -> Lines:
    """Yield the volumes of a pod, or of a pod template, whose titles are indented."""
    if not entries:
        yield f"{indent}Volumes:\t{NONE}"
        return
    yield f"{indent}Volumes:"
    for volume in entries:
        yield f"  {' ' if indent else ''}{volume.get('name')}:"
        yield from source_lines(volume, FORMATS)


def source_lines(volume: Value, formats: dict[str, VolumeSourceFormat]) -> Lines:
    kind = next((name for name in formats if volume.get(name) is not None), None)
    if kind is None:
        yield "  <unknown>"
        return
    source = volume[kind]
    yield f"    Type:\t{formats[kind].type}"
    for field in formats[kind].fields:
        yield f"    {_field_line(field, source)}"
    if kind == "csi":
        attributes = [
            truncate(f"{key}={value}") for key, value in sorted((source.get("volumeAttributes") or {}).items())
        ]
        first, *further_attributes = attributes or [NONE]
        yield f"    VolumeAttributes:\t{'    ' if attributes else ''}{first}"
        yield from (f"        \t    {attribute}" for attribute in further_attributes)
    elif kind == "downwardAPI":
        yield "    Items:"
        yield from (f"      {line}" for item in items(source, "items") for line in _downward_item(item))
    elif kind == "projected":
        yield from (f"    {line}" for projection in items(source, "sources") for line in _projection(projection))
    elif kind == "ephemeral" and source.get("volumeClaimTemplate"):
        yield from _nested_claim(source["volumeClaimTemplate"])


def _nested_claim(template: Value) -> Lines:
    """Yield the template of a claim. kubectl indents each piece of the lines of labels and annotations."""
    title = ""
    for line in claim_lines(template):
        if line.startswith("\t"):
            yield f"{'        ' if title == 'Labels:' else '    '}\t    {line[1:]}"
            continue
        title, _, value = line.partition("\t")
        yield f"    {title}\t    {value}" if title in ("Labels:", "Annotations:") else f"    {line}"


def _field_line(field: Field, source: Value) -> str:
    if isinstance(field, str):
        title, name = field.split(":")
        return f"{title}:\t{source.get(name, '')}"
    title, text = field
    colon = "" if title == "ISCSIInterface" or title.endswith(" ") else ":"
    return f"{title}{colon}\t{text(source)}"


def _downward_item(item: Value) -> Lines:
    if ref := item.get("fieldRef"):
        yield f"{ref.get('fieldPath')} -> {item.get('path')}"
    if ref := item.get("resourceFieldRef"):
        yield f"{ref.get('resource')} -> {item.get('path')}"


def _projection(projection: Value) -> Lines:
    if ref := projection.get("secret"):
        yield f"SecretName:\t{ref.get('name', '')}"
        yield f"Optional:\t{optional_text(ref)}"
    elif "downwardAPI" in projection:
        yield "DownwardAPI:\ttrue"
    elif ref := projection.get("configMap"):
        yield f"ConfigMapName:\t{ref.get('name', '')}"
        yield f"Optional:\t{optional_text(ref)}"
    elif ref := projection.get("serviceAccountToken"):
        yield f"TokenExpirationSeconds:\t{ref.get('expirationSeconds', 3600)}"


def storage_class_of(obj: Value) -> str:
    """Return the storage class of a claim or volume; the annotation of old versions comes first."""
    legacy = part(obj, "metadata", "annotations").get("volume.beta.kubernetes.io/storage-class")
    return str(legacy if legacy is not None else part(obj, "spec").get("storageClassName") or "")


def access_modes_text(modes: Sequence[str]) -> str:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return ",".join(text for mode, text in short.items() if mode in modes)


def claim_lines(claim: Value, status: Any = None) -> Lines:
    """Yield the fields that a PersistentVolumeClaim and the template of an ephemeral volume have in common. With a
    `status`, yield also the fields that only a claim has. The caller prints name and namespace."""
    metadata, spec = part(claim, "metadata"), part(claim, "spec")
    yield f"StorageClass:\t{storage_class_of(claim)}"
    if status is not None:
        yield f"Status:\t{status}"
    yield f"Volume:\t{spec.get('volumeName', '')}"
    yield from label_lines("Labels", metadata.get("labels"))
    yield from annotation_lines("Annotations", metadata.get("annotations"))
    if status is not None:
        yield f"Finalizers:\t{go_text(metadata.get('finalizers') or [])}"
    is_bound = bool(spec.get("volumeName"))
    claim_status = part(claim, "status")
    yield f"Capacity:\t{part(claim_status, 'capacity').get('storage', '0') if is_bound else ''}"
    yield f"Access Modes:\t{access_modes_text(items(claim_status, 'accessModes')) if is_bound else ''}"
    if spec.get("volumeMode") is not None:
        yield f"VolumeMode:\t{spec['volumeMode']}"
    if data_source := spec.get("dataSource"):
        yield "DataSource:"
        if data_source.get("apiGroup") is not None:
            yield f"  APIGroup:\t{data_source['apiGroup']}"
        yield f"  Kind:\t{data_source.get('kind')}"
        yield f"  Name:\t{data_source.get('name')}"
