"""Validation of volume mounts and block devices of a container."""

from collections.abc import Mapping

from sampan.api.faults import FieldError
from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import Volume, VolumeDevice, VolumeMount
from sampan.apiserver.registry.podspec.file_paths import has_backsteps, validate_local_descending_path
from sampan.apiserver.registry.podspec.formats import FieldErrors

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def validate_volume_mounts(container: AnyContainer, volumes: Mapping[str, Volume], at: str) -> FieldErrors:
    devices = {device.name: device.devicePath for device in container.volumeDevices}
    paths: set[str] = set()
    for index, mount in enumerate(container.volumeMounts):
        yield from _validate_mount_path(mount, volumes, paths, f"{at}[{index}]")
        if devices:
            yield from _validate_not_a_device(mount, devices, f"{at}[{index}]")
        if mount.subPath or mount.subPathExpr:
            yield from _validate_sub_paths(mount, at, f"{at}[{index}]")
        if mount.mountPropagation is not None:
            yield from _validate_propagation(mount.mountPropagation, container, f"{at}.mountPropagation")
        if mount.recursiveReadOnly is not None:
            yield from _validate_recursive_read_only(mount, f"{at}.recursiveReadOnly")


def _validate_mount_path(mount: VolumeMount, volumes: Mapping[str, Volume], paths: set[str], at: str) -> FieldErrors:
    name, path = mount.name, mount.mountPath
    if not name:
        yield FieldError.required(f"{at}.name")
    if name not in volumes:
        yield FieldError.not_found(f"{at}.name", name)
    if not path:
        yield FieldError.required(f"{at}.mountPath")
    if path in paths:
        yield FieldError.invalid(f"{at}.mountPath", path, "must be unique")
    paths.add(path)


def _validate_not_a_device(mount: VolumeMount, devices: Mapping[str, str], at: str) -> FieldErrors:
    if mount.name in devices:
        yield FieldError.invalid(f"{at}.name", mount.name, "must not already exist in volumeDevices")
    if mount.mountPath in devices.values():
        text = "must not already exist as a path in volumeDevices"
        yield FieldError.invalid(f"{at}.mountPath", mount.mountPath, text)


def _validate_sub_paths(mount: VolumeMount, at: str, here: str) -> FieldErrors:
    """Yield errors of sub-paths. Those of a path itself are reported at the list, as kube-apiserver does."""
    if mount.subPath:
        yield from validate_local_descending_path(mount.subPath, f"{at}.subPath")
    if mount.subPathExpr:
        if mount.subPath:
            text = "subPathExpr and subPath are mutually exclusive"
            yield FieldError.invalid(f"{here}.subPathExpr", mount.subPathExpr, text)
        yield from validate_local_descending_path(mount.subPathExpr, f"{at}.subPathExpr")


def _validate_propagation(propagation: str, container: AnyContainer, at: str) -> FieldErrors:
    if propagation not in _PROPAGATIONS:
        yield FieldError.not_supported(at, propagation, _PROPAGATIONS)
    context = container.securityContext
    if propagation == "Bidirectional" and not (context is not None and context.privileged):
        text = "Bidirectional mount propagation is available only to privileged containers"
        yield FieldError.forbidden(at, text)


def _validate_recursive_read_only(mount: VolumeMount, at: str) -> FieldErrors:
    if mount.recursiveReadOnly not in _RECURSIVE:
        yield FieldError.not_supported(at, mount.recursiveReadOnly, _RECURSIVE)
    elif mount.recursiveReadOnly != "Disabled":
        if not mount.readOnly:
            yield FieldError.forbidden(at, "may only be specified when readOnly is true")
        if mount.mountPropagation not in (None, "None"):
            text = "may only be specified when mountPropagation is None or not specified"
            yield FieldError.forbidden(at, text)


def validate_volume_devices(container: AnyContainer, volumes: Mapping[str, Volume], at: str) -> FieldErrors:
    mounts = {mount.name: mount.mountPath for mount in container.volumeMounts}
    seen_names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.volumeDevices):
        yield from _validate_device_name(device, volumes, seen_names, f"{at}[{index}].name")
        yield from _validate_device_path(device, paths, f"{at}[{index}].devicePath")
        if device.name in mounts:
            yield FieldError.invalid(f"{at}[{index}].name", device.name, "must not already exist in volumeMounts")
        if device.devicePath in mounts.values():
            text = "must not already exist as a path in volumeMounts"
            yield FieldError.invalid(f"{at}[{index}].devicePath", device.devicePath, text)


def _validate_device_name(
    device: VolumeDevice, volumes: Mapping[str, Volume], known_names: set[str], at: str
) -> FieldErrors:
    name, volume = device.name, volumes.get(device.name)
    if not name:
        yield FieldError.required(at)
    if name in known_names:
        yield FieldError.invalid(at, name, "must be unique")
    if volume is None:
        yield FieldError.not_found(at, name)
    elif volume.persistentVolumeClaim is None and volume.ephemeral is None:
        text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        yield FieldError.invalid(at, name, text)
    if name:
        known_names.add(name)


def _validate_device_path(device: VolumeDevice, paths: set[str], at: str) -> FieldErrors:
    path = device.devicePath
    if not path:
        yield FieldError.required(at)
    if path in paths:
        yield FieldError.invalid(at, path, "must be unique")
    if has_backsteps(path):
        yield FieldError.invalid(at, path, "can not contain backsteps ('..')")
    else:
        paths.add(path)
