"""Computes the mounts of a container from its volumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from sampan.api.types.core_v1 import VolumeMount
from sampan.kubelet.environment.expansion import expand
from sampan.kubelet.volumes import subpaths
from sampan.kubelet.volumes.contract import Ready
from sampan.kubelet.volumes.host import Host
from sampan.kubelet.volumes.state import Actual, AnyContainer, Key
from sampan.kubelet.volumes.subpaths import UnsafeSubpath
from sampan.runtimes.config import Device, Mount, Propagation
from sampan.runtimes.contract import RuntimeFailure

CONFIG_ERROR = "CreateContainerConfigError"
_PROPAGATIONS: Mapping[str, Propagation] = {
    "": "private",
    "None": "private",
    "HostToContainer": "rslave",
    "Bidirectional": "rshared",
}


class ContainerMounts:
    def __init__(self, *, host: Host, actual: Actual, can_recurse: Callable[[], bool]) -> None:
        self._host, self._actual, self._can_recurse = host, actual, can_recurse

    def mounts(self, uid: str, container: AnyContainer, variables: Mapping[str, str]) -> list[Mount]:
        """Return the mounts. Raise RuntimeFailure if a volume is missing or a mount is invalid."""
        return [
            self._mount(uid, container.name, index, mount, variables)
            for index, mount in enumerate(container.volumeMounts)
        ]

    def devices(self, uid: str, container: AnyContainer) -> list[Device]:
        devices = []
        for volume_device in container.volumeDevices:
            ready = self._actual.ready(Key(uid, volume_device.name))
            if ready is None or ready.device is None:
                raise _fault(f'cannot find volume "{volume_device.name}" to pass into container "{container.name}"')
            permissions = "r" if ready.is_read_only else "mrw"
            devices.append(Device(host_path=str(ready.device), path=volume_device.devicePath, permissions=permissions))
        return devices

    def _mount(self, uid: str, container: str, index: int, mount: VolumeMount, variables: Mapping[str, str]) -> Mount:
        volume = self._actual.get(Key(uid, mount.name))
        if volume is None or volume.ready is None or volume.ready.device is not None:
            raise _fault(f'cannot find volume "{mount.name}" to mount into container "{container}"')
        ready, subpath = volume.ready, chosen_subpath(mount, variables)
        source = ready.path
        if subpath and not ready.image:
            target = self._host.layout.subpath(uid, volume.inner, container, index)
            source = self._bound(ready, subpath, target, mount.name, container)
        return Mount(
            source=source,
            target=mount.mountPath if mount.mountPath.startswith("/") else f"/{mount.mountPath}",
            is_read_only=mount.readOnly or ready.is_read_only,
            is_recursively_read_only=is_recursive(mount, self._can_recurse()),
            propagation=propagation(mount.mountPropagation),
            image=ready.image,
            image_sub_path=subpath if ready.image else "",
        )

    def _bound(self, ready: Ready, subpath: str, target: Path, name: str, container: str) -> Path:
        """Prepare the subpath. The message does not contain the cause, which might disclose files of the node."""
        where = f'subPath{{}} for volumeMount "{name}" of container "{container}"'
        try:
            if not (ready.path / subpath).exists():
                subpaths.make_directory(ready.path, subpath)
        except (OSError, UnsafeSubpath) as error:
            raise _fault(f"failed to create {where.format(' directory')}") from error
        try:
            return subpaths.bind(self._host.mounter, ready.path, subpath, target)
        except (OSError, UnsafeSubpath) as error:
            raise _fault(f"failed to prepare {where.format('')}") from error


def chosen_subpath(mount: VolumeMount, variables: Mapping[str, str]) -> str:
    """Return the subpath with its variables expanded. Pure."""
    subpath = mount.subPath
    if mount.subPathExpr:
        missing: list[str] = []
        subpath = expand(mount.subPathExpr, _Noting(variables, missing))
        if missing:
            raise _fault(f"missing value for {', '.join(sorted(set(missing)))}")
    if subpath.startswith("/"):
        raise _fault(f"error SubPath `{subpath}` must not be an absolute path")
    if ".." in subpath.split("/"):
        raise _fault(f"unable to provision SubPath `{subpath}`: must not contain '..'")
    return subpath


class _Noting(dict[str, str]):
    """Contains every name; names without a value are recorded as missing."""

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
        raise _fault(f'invalid MountPropagation mode: "{mode}"')
    return result


def is_recursive(mount: VolumeMount, can: bool) -> bool:
    """Whether everything below the mount is read-only too. Raise RuntimeFailure if that is requested but not possible.
    Pure.
    """
    if mount.recursiveReadOnly in (None, "Disabled"):
        return False
    start = (
        f'failed to resolve recursive read-only mode: volume "{mount.name}" requested recursive read-only mode, but it'
    )
    if not mount.readOnly:
        raise _fault(f"{start} is not read-only")
    if mount.mountPropagation not in (None, "None"):
        raise _fault(f'{start} is not compatible with propagation "{mount.mountPropagation}"')
    if mount.recursiveReadOnly == "Enabled" and not can:
        raise _fault(f"{start} is not supported by the runtime")
    return can


def _fault(message: str) -> RuntimeFailure:
    return RuntimeFailure(CONFIG_ERROR, message)
