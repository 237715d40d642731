"""Validation of the volumes of a pod, and of the mounts and block devices of its containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sampan.api import names
from sampan.api.field_errors import FieldError
from sampan.api.go_compat import gotext
from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import (
    ConfigMapVolumeSource,
    DownwardAPIVolumeSource,
    ImageVolumeSource,
    PersistentVolumeClaimVolumeSource,
    SecretVolumeSource,
    Volume,
    VolumeDevice,
    VolumeMount,
)
from sampan.api.values import quantity
from sampan.apiserver.registry.podspec.volumes import sources as storage
from sampan.apiserver.registry.podspec.volumes.projected import (
    validate_downward_api_file,
    validate_keys_to_paths,
    validate_projected_volume,
)
from sampan.apiserver.registry.podspec.volumes.volume_claims import validate_claim_template
from sampan.apiserver.registry.validation import (
    FieldErrors,
    has_backsteps,
    validate_dns_label,
    validate_file_mode,
    validate_local_descending_path,
    validate_one_of,
    validate_required,
    validate_user_or_group_id,
)

if TYPE_CHECKING:
    from sampan.apiserver.registry.podspec.validation_options import PodValidationOptions

PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def validate_volumes(
    volumes: Sequence[Volume], pod_name: str, options: PodValidationOptions, field_path: str, good: dict[str, Volume]
) -> FieldErrors:
    """Yield the errors of all volumes, and add valid volumes to `good`: only these can be mounted.

    `pod_name` is empty for a template: the names of claims of ephemeral volumes are not validated then.
    """
    claims = {f"{pod_name}-{volume.name}" for volume in volumes if pod_name and volume.ephemeral is not None}
    for index, volume in enumerate(volumes):
        path = f"{field_path}[{index}]"
        errors = list(_validate_volume(volume, pod_name, options, path))
        if volume.name in good:
            errors.append(FieldError.duplicate(f"{path}.name", volume.name))
        if not errors:
            good[volume.name] = volume
        yield from errors
        claim = volume.persistentVolumeClaim
        if claim is not None and claim.claimName in claims:
            text = "must not reference a PVC that gets created for an ephemeral volume"
            yield FieldError.invalid(f"{path}.persistentVolumeClaim.claimName", claim.claimName, text)


def _validate_volume(volume: Volume, pod_name: str, options: PodValidationOptions, path: str) -> FieldErrors:
    sources = [(name, source) for name in _SOURCES if (source := getattr(volume, name)) is not None]
    for index, (name, source) in enumerate(sources):
        if index > 0:
            yield FieldError.forbidden(
                f"{path}.{_GO_FIELD_NAMES.get(name, name)}", "may not specify more than 1 volume type"
            )
        else:
            yield from _SOURCES[name](source, options, f"{path}.{name}")
        if name == "iscsi":
            yield from storage.validate_iscsi_name(volume, path)
        if name == "ephemeral" and index == 0 and pod_name and volume.name:
            yield from _validate_claim_name(volume.name, f"{pod_name}-{volume.name}", f"{path}.name")
    if not sources:
        yield FieldError.required(path, "must specify a volume type")
    if not volume.name:
        yield FieldError.required(f"{path}.name")
    else:
        yield from validate_dns_label(volume.name, f"{path}.name")


def _validate_claim_name(volume: str, claim: str, path: str) -> FieldErrors:
    for text in names.dns1123_subdomain(claim):
        yield FieldError.invalid(path, volume, f"PVC name {gotext.quote(claim)}: {text}")


def _validate_empty_dir(source: Any, options: PodValidationOptions, path: str) -> FieldErrors:
    if source.sizeLimit is not None and quantity.parse(source.sizeLimit).sign < 0:
        yield FieldError.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _validate_secret(source: SecretVolumeSource, options: PodValidationOptions, path: str) -> FieldErrors:
    yield from validate_required(source.secretName, f"{path}.secretName")
    yield from validate_file_mode(source.defaultMode, f"{path}.defaultMode")
    yield from validate_keys_to_paths(source.items, f"{path}.items")
    yield from validate_user_or_group_id(source.defaultUser, f"{path}.defaultUser")


def _validate_config_map(source: ConfigMapVolumeSource, options: PodValidationOptions, path: str) -> FieldErrors:
    yield from validate_required(source.name, f"{path}.name")
    yield from validate_file_mode(source.defaultMode, f"{path}.defaultMode")
    yield from validate_keys_to_paths(source.items, f"{path}.items")
    yield from validate_user_or_group_id(source.defaultUser, f"{path}.defaultUser")


def _validate_downward(source: DownwardAPIVolumeSource, options: PodValidationOptions, path: str) -> FieldErrors:
    yield from validate_file_mode(source.defaultMode, f"{path}.defaultMode")
    yield from validate_user_or_group_id(source.defaultUser, f"{path}.defaultUser")
    for file in source.items:
        yield from validate_downward_api_file(file, path)


def _validate_persistent_claim(
    source: PersistentVolumeClaimVolumeSource, options: PodValidationOptions, path: str
) -> FieldErrors:
    yield from validate_required(source.claimName, f"{path}.claimName")


def _validate_ephemeral(source: Any, options: PodValidationOptions, path: str) -> FieldErrors:
    if source.volumeClaimTemplate is None:
        yield FieldError.required(f"{path}.volumeClaimTemplate")
    else:
        yield from validate_claim_template(source.volumeClaimTemplate, f"{path}.volumeClaimTemplate")


def _validate_image(source: ImageVolumeSource, options: PodValidationOptions, path: str) -> FieldErrors:
    if not options.empty_image_references:
        yield from validate_required(source.reference, f"{path}.reference")
    yield from validate_one_of(source.pullPolicy, PULL_POLICIES, f"{path}.pullPolicy")


def _ignore_options(
    check: Callable[[Any, str], FieldErrors],
) -> Callable[[Any, PodValidationOptions, str], FieldErrors]:
    return lambda source, _, index: check(source, index)


_SOURCES: Mapping[str, Callable[[Any, PodValidationOptions, str], FieldErrors]] = {
    "emptyDir": _validate_empty_dir,
    "hostPath": _ignore_options(storage.validate_host_path),
    "gitRepo": _ignore_options(storage.validate_git_repo),
    "gcePersistentDisk": _ignore_options(storage.validate_gce_disk),
    "awsElasticBlockStore": _ignore_options(storage.validate_aws_disk),
    "secret": _validate_secret,
    "nfs": _ignore_options(storage.validate_nfs),
    "iscsi": _ignore_options(storage.validate_iscsi),
    "glusterfs": _ignore_options(storage.validate_glusterfs),
    "flocker": _ignore_options(storage.validate_flocker),
    "persistentVolumeClaim": _validate_persistent_claim,
    "rbd": _ignore_options(storage.validate_rbd),
    "cinder": _ignore_options(storage.validate_cinder),
    "cephfs": _ignore_options(storage.validate_cephfs),
    "quobyte": _ignore_options(storage.validate_quobyte),
    "downwardAPI": _validate_downward,
    "fc": _ignore_options(storage.validate_fibre_channel),
    "flexVolume": _ignore_options(storage.validate_flex),
    "configMap": _validate_config_map,
    "azureFile": _ignore_options(storage.validate_azure_file),
    "vsphereVolume": _ignore_options(storage.validate_vsphere),
    "photonPersistentDisk": _ignore_options(storage.validate_photon),
    "portworxVolume": _ignore_options(storage.validate_portworx),
    "azureDisk": _ignore_options(storage.validate_azure_disk),
    "storageos": _ignore_options(storage.validate_storage_os),
    "projected": validate_projected_volume,
    "scaleIO": _ignore_options(storage.validate_scale_io),
    "csi": _ignore_options(storage.validate_csi),
    "ephemeral": _validate_ephemeral,
    "image": _validate_image,
}
"""The sources in the order in which they are checked: the first is validated, all others are rejected."""

_GO_FIELD_NAMES = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Spellings in kube-apiserver's message about more than one source."""


_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def validate_volume_mounts(container: AnyContainer, volumes: Mapping[str, Volume], path: str) -> FieldErrors:
    devices = {device.name: device.devicePath for device in container.volumeDevices}
    device_paths = set(devices.values())
    paths: set[str] = set()
    for index, mount in enumerate(container.volumeMounts):
        yield from _validate_mount_path(mount, volumes, paths, f"{path}[{index}]")
        if devices:
            yield from _validate_not_a_device(mount, devices, device_paths, f"{path}[{index}]")
        if mount.subPath or mount.subPathExpr:
            yield from _validate_sub_paths(mount, path, f"{path}[{index}]")
        if mount.mountPropagation is not None:
            yield from _validate_propagation(mount.mountPropagation, container, f"{path}.mountPropagation")
        if mount.recursiveReadOnly is not None:
            yield from _validate_recursive_read_only(mount, f"{path}.recursiveReadOnly")


def _validate_mount_path(
    mount: VolumeMount, volumes: Mapping[str, Volume], paths: set[str], field_path: str
) -> FieldErrors:
    name, path = mount.name, mount.mountPath
    if not name:
        yield FieldError.required(f"{field_path}.name")
    if name not in volumes:
        yield FieldError.not_found(f"{field_path}.name", name)
    if not path:
        yield FieldError.required(f"{field_path}.mountPath")
    if path in paths:
        yield FieldError.invalid(f"{field_path}.mountPath", path, "must be unique")
    paths.add(path)


def _validate_not_a_device(
    mount: VolumeMount, devices: Mapping[str, str], device_paths: set[str], path: str
) -> FieldErrors:
    if mount.name in devices:
        yield FieldError.invalid(f"{path}.name", mount.name, "must not already exist in volumeDevices")
    if mount.mountPath in device_paths:
        text = "must not already exist as a path in volumeDevices"
        yield FieldError.invalid(f"{path}.mountPath", mount.mountPath, text)


def _validate_sub_paths(mount: VolumeMount, path: str, item_path: str) -> FieldErrors:
    """Yield errors of sub-paths. Those of a path itself are reported at the list, as kube-apiserver does."""
    if mount.subPath:
        yield from validate_local_descending_path(mount.subPath, f"{path}.subPath")
    if mount.subPathExpr:
        if mount.subPath:
            text = "subPathExpr and subPath are mutually exclusive"
            yield FieldError.invalid(f"{item_path}.subPathExpr", mount.subPathExpr, text)
        yield from validate_local_descending_path(mount.subPathExpr, f"{path}.subPathExpr")


def _validate_propagation(propagation: str, container: AnyContainer, path: str) -> FieldErrors:
    if propagation not in _PROPAGATIONS:
        yield FieldError.not_supported(path, propagation, _PROPAGATIONS)
    context = container.securityContext
    if propagation == "Bidirectional" and not (context is not None and context.privileged):
        text = "Bidirectional mount propagation is available only to privileged containers"
        yield FieldError.forbidden(path, text)


def _validate_recursive_read_only(mount: VolumeMount, path: str) -> FieldErrors:
    if mount.recursiveReadOnly not in _RECURSIVE:
        yield FieldError.not_supported(path, mount.recursiveReadOnly, _RECURSIVE)
    elif mount.recursiveReadOnly != "Disabled":
        if not mount.readOnly:
            yield FieldError.forbidden(path, "may only be specified when readOnly is true")
        if mount.mountPropagation not in (None, "None"):
            text = "may only be specified when mountPropagation is None or not specified"
            yield FieldError.forbidden(path, text)


def validate_volume_devices(container: AnyContainer, volumes: Mapping[str, Volume], path: str) -> FieldErrors:
    mounts = {mount.name: mount.mountPath for mount in container.volumeMounts}
    mount_paths = set(mounts.values())
    seen_names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.volumeDevices):
        yield from _validate_device_name(device, volumes, seen_names, f"{path}[{index}].name")
        yield from _validate_device_path(device, paths, f"{path}[{index}].devicePath")
        if device.name in mounts:
            yield FieldError.invalid(f"{path}[{index}].name", device.name, "must not already exist in volumeMounts")
        if device.devicePath in mount_paths:
            text = "must not already exist as a path in volumeMounts"
            yield FieldError.invalid(f"{path}[{index}].devicePath", device.devicePath, text)


def _validate_device_name(
    device: VolumeDevice, volumes: Mapping[str, Volume], known_names: set[str], path: str
) -> FieldErrors:
    name, volume = device.name, volumes.get(device.name)
    if not name:
        yield FieldError.required(path)
    if name in known_names:
        yield FieldError.invalid(path, name, "must be unique")
    if volume is None:
        yield FieldError.not_found(path, name)
    elif volume.persistentVolumeClaim is None and volume.ephemeral is None:
        text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        yield FieldError.invalid(path, name, text)
    if name:
        known_names.add(name)


def _validate_device_path(device: VolumeDevice, paths: set[str], field_path: str) -> FieldErrors:
    path = device.devicePath
    if not path:
        yield FieldError.required(field_path)
    if path in paths:
        yield FieldError.invalid(field_path, path, "must be unique")
    if has_backsteps(path):
        yield FieldError.invalid(field_path, path, "can not contain backsteps ('..')")
    else:
        paths.add(path)
