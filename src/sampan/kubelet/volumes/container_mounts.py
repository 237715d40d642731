"""The use of a pod's volumes by its containers: mounts, block devices, mount statuses, and environment variables from
files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from sampan.api import limits
from sampan.api.semantics.pods import AnyContainer, all_containers
from sampan.api.types.core_v1 import ContainerStatus, Pod, PodStatus, VolumeMount
from sampan.kubelet.container_config.variables import expand
from sampan.kubelet.volumes import subpaths
from sampan.kubelet.volumes.contract import ReadyVolume
from sampan.kubelet.volumes.state import ActualState, PodVolumeKey
from sampan.kubelet.volumes.volume_host import VolumeHost
from sampan.runtimes.config import Device, Mount, Propagation
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.safe_paths import UnsafePath, opened_root

CONFIG_ERROR = "CreateContainerConfigError"
_PROPAGATIONS: Mapping[str, Propagation] = {
    "": "private",
    "None": "private",
    "HostToContainer": "rslave",
    "Bidirectional": "rshared",
}


class ContainerMounts:
    def __init__(
        self, *, host: VolumeHost, actual: ActualState, supports_recursive_read_only: Callable[[], bool]
    ) -> None:
        self._host, self._actual, self._supports_recursive_read_only = host, actual, supports_recursive_read_only

    def mounts(self, uid: str, container: AnyContainer, variables: Mapping[str, str]) -> list[Mount]:
        """Return the mounts of the container. Raise RuntimeFailure if a volume is missing or a mount is invalid."""
        return [
            self._mount(uid, container.name, index, mount, variables)
            for index, mount in enumerate(container.volumeMounts)
        ]

    def devices(self, uid: str, container: AnyContainer) -> list[Device]:
        devices = []
        for volume_device in container.volumeDevices:
            ready = self._actual.ready(PodVolumeKey(uid, volume_device.name))
            if ready is None or ready.device is None:
                raise _config_error(
                    f'cannot find volume "{volume_device.name}" to pass into container "{container.name}"'
                )
            permissions = "r" if ready.is_read_only else "mrw"
            devices.append(Device(host_path=str(ready.device), path=volume_device.devicePath, permissions=permissions))
        return devices

    def _mount(self, uid: str, container: str, index: int, mount: VolumeMount, variables: Mapping[str, str]) -> Mount:
        volume = self._actual.get(PodVolumeKey(uid, mount.name))
        if volume is None or volume.ready is None or volume.ready.device is not None:
            raise _config_error(f'cannot find volume "{mount.name}" to mount into container "{container}"')
        ready, subpath = volume.ready, resolve_subpath(mount, variables)
        source = ready.path
        if subpath and not ready.image:
            target = self._host.layout.subpath(uid, volume.inner, container, index)
            source = self._bind_subpath(ready, subpath, target, mount.name, container)
        return Mount(
            source=source,
            target=mount.mountPath if mount.mountPath.startswith("/") else f"/{mount.mountPath}",
            is_read_only=mount.readOnly or ready.is_read_only,
            is_recursively_read_only=is_recursive(mount, self._supports_recursive_read_only()),
            propagation=propagation(mount.mountPropagation),
            image=ready.image,
            image_sub_path=subpath if ready.image else "",
            options=mount.bindMountOptions,
        )

    def _bind_subpath(self, ready: ReadyVolume, subpath: str, target: Path, name: str, container: str) -> Path:
        """Create the subpath in the volume if it is missing, bind it to `target`, and return the path to mount. The
        message of an error does not contain its cause, which might disclose files of the node.
        """
        mount_text = f'subPath{{}} for volumeMount "{name}" of container "{container}"'
        try:
            subpaths.ensure_exists(ready.path, subpath)
        except (OSError, UnsafePath) as error:
            raise _config_error(f"failed to create {mount_text.format(' directory')}") from error
        try:
            return subpaths.bind(self._host.mounter, ready.path, subpath, target)
        except (OSError, UnsafePath) as error:
            raise _config_error(f"failed to prepare {mount_text.format('')}") from error


def resolve_subpath(mount: VolumeMount, variables: Mapping[str, str]) -> str:
    """Return the subpath of a mount with its variables expanded. Pure."""
    subpath = mount.subPath
    if mount.subPathExpr:
        missing: list[str] = []
        subpath = expand(mount.subPathExpr, _RecordingVariables(variables, missing))
        if missing:
            raise _config_error(f"missing value for {', '.join(sorted(set(missing)))}")
    if subpath.startswith("/"):
        raise _config_error(f"error SubPath `{subpath}` must not be an absolute path")
    if ".." in subpath.split("/"):
        raise _config_error(f"unable to provision SubPath `{subpath}`: must not contain '..'")
    return subpath


class _RecordingVariables(dict[str, str]):
    """A mapping that seems to contain every name. Names without a value are recorded as missing when they are read."""

    def __init__(self, values: Mapping[str, str], missing: list[str]) -> None:
        super().__init__(values)
        self._missing = missing

    def __contains__(self, name: object) -> bool:
        return True

    def __getitem__(self, name: str) -> str:
        value = self.get(name, "")
        if not value:
            self._missing.append(name)
        return value


def propagation(mode: str | None) -> Propagation:
    result = _PROPAGATIONS.get(mode or "")
    if result is None:
        raise _config_error(f'invalid MountPropagation mode: "{mode}"')
    return result


def is_recursive(mount: VolumeMount, can: bool) -> bool:
    """Whether the mounts below the mount are read-only too. Raise RuntimeFailure if that is requested but not possible.
    Pure.
    """
    if mount.recursiveReadOnly in (None, "Disabled"):
        return False
    start = (
        f'failed to resolve recursive read-only mode: volume "{mount.name}" requested recursive read-only mode, but it'
    )
    if not mount.readOnly:
        raise _config_error(f"{start} is not read-only")
    if mount.mountPropagation not in (None, "None"):
        raise _config_error(f'{start} is not compatible with propagation "{mount.mountPropagation}"')
    if mount.recursiveReadOnly == "Enabled" and not can:
        raise _config_error(f"{start} is not supported by the runtime")
    return can


def _config_error(message: str) -> RuntimeFailure:
    return RuntimeFailure(CONFIG_ERROR, message)


_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


def with_mount_statuses(pod: Pod, status: PodStatus) -> PodStatus:
    """Return the status with the recursive read-only mounts of the pod's containers marked. Pure."""
    requests = {
        container.name: paths for container in all_containers(pod.spec) if (paths := _recursive_mount_paths(container))
    }
    if not requests:
        return status
    changed = {
        name: [
            _with_recursive_mounts(container, requests.get(container.name, set()))
            for container in getattr(status, name)
        ]
        for name in _LISTS
    }
    return msgspec.structs.replace(status, **changed)


def _recursive_mount_paths(container: AnyContainer) -> set[str]:
    """Return the mount paths of the container's recursive read-only mounts."""
    paths = set()
    for mount in container.volumeMounts:
        try:
            if is_recursive(mount, True):
                paths.add(mount.mountPath)
        except RuntimeFailure:
            continue
    return paths


def _with_recursive_mounts(status: ContainerStatus, paths: set[str]) -> ContainerStatus:
    mounts = [
        msgspec.structs.replace(mount, recursiveReadOnly="Enabled") if mount.mountPath in paths else mount
        for mount in status.volumeMounts
    ]
    return msgspec.structs.replace(status, volumeMounts=mounts) if paths else status


def env_file_value(volume: Path, path: str, key: str) -> str | None:
    """Return a value from a file that containers have written to a volume (fileKeyRef), or None if there is no such
    file or key. Symbolic links are resolved within the volume, even if they change concurrently. Raise UnsafePath if
    the file is not regular or too large.
    """
    try:
        with opened_root(volume) as root:
            text = root.read(path, limits.ENV_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    return parse_env_file(text).get(key)


def parse_env_file(text: str) -> dict[str, str]:
    """Parse lines KEY=VALUE. Empty lines and those that start with # are ignored; quotes around a value are removed."""
    variables = {}
    for line in text.splitlines():
        name, equals, remainder = line.strip().partition("=")
        if not equals or name.startswith("#"):
            continue
        remainder = remainder.strip()
        if len(remainder) >= 2 and remainder[0] == remainder[-1] and remainder[0] in "'\"":
            remainder = remainder[1:-1]
        variables[name.strip()] = remainder
    return variables
