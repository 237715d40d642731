"""iscsi volumes: a network disk that the machine's iscsiadm attaches to this node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from sampan.api.types.core_v1 import ISCSIPersistentVolumeSource, ISCSIVolumeSource
from sampan.host.durable_files import write_durably
from sampan.host.keyed_locks import KeyedLocks
from sampan.host.worker_thread import run_in_thread
from sampan.kubelet.volumes.contract import (
    MOUNT_DEVICE,
    DeviceMount,
    ReadyVolume,
    VolumeOperationError,
    VolumePluginBase,
    VolumeSpec,
)
from sampan.kubelet.volumes.mounter import CommandError, run_program
from sampan.kubelet.volumes.ownership import give_to_group
from sampan.kubelet.volumes.volume_host import VolumeHost

NAME = "kubernetes.io/iscsi"
Source = ISCSIVolumeSource | ISCSIPersistentVolumeSource
Command = Sequence[str]
_PORT = 3260
_SESSION_EXISTS, _NO_SESSION = 15, 21
_DISKS = Path("/dev/disk/by-path")
_WAIT_S = 1.0
_LOOKS = 10
"""Number of attempts to find the disk after login."""
_DISCOVERY_KEYS = ("username", "password", "username_in", "password_in")


class IscsiPlugin(VolumePluginBase):
    name = NAME

    def __init__(self, host: VolumeHost) -> None:
        self._host = host
        self._sessions = KeyedLocks()
        """Locks by target, so that no logout happens during a login."""

    def _session(self, device: DeviceMount) -> AbstractAsyncContextManager[None]:
        return self._sessions.held("-".join(_portal_and_iqn(device.path.name)))

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume.iscsi is not None or spec.source.iscsi is not None

    async def device(self, spec: VolumeSpec) -> DeviceMount | None:
        source = _source(spec)
        portal, *others = _portals(source)
        if any("/" in part or "\0" in part for part in (portal, *others, source.iqn, _interface(source))):
            raise VolumeOperationError(
                "iSCSI portal, iqn and interface must not contain slashes: they become parts of a path"
            )
        name = f"{portal}-{source.iqn}-lun-{source.lun}"
        path = self._host.layout.plugin(NAME) / f"iface-{_interface(source)}" / name
        return DeviceMount(unique_name=f"{NAME}/{portal}:{source.iqn}:{source.lun}", path=path)

    async def mount_device(self, spec: VolumeSpec, device: DeviceMount) -> None:
        if self._host.mounter.is_mounted(device.path):
            return
        async with self._session(device):
            try:
                disk = await self._attach(spec)
                device.path.mkdir(parents=True, exist_ok=True, mode=0o750)
                options = [*spec.source.mountOptions, *(["ro"] if _is_read_only(spec) else [])]
                await self._host.mounter.format_and_mount(disk, device.path, _source(spec).fsType or "ext4", options)
            except VolumeOperationError as error:
                raise VolumeOperationError(error.text, step=MOUNT_DEVICE) from None

    async def _attach(self, spec: VolumeSpec) -> str:
        """Attach the disk and return its path. Each portal is an alternative path to the disk; one suffices."""
        source, secret = _source(spec), await self._secret(spec)
        last_error: VolumeOperationError | None = None
        for portal in _portals(source):
            try:
                for command in login(source, portal, secret):
                    await _run_iscsiadm(command, _SESSION_EXISTS)
                return await self._disk(portal, source)
            except VolumeOperationError as error:
                last_error = error
        raise VolumeOperationError(
            f"failed to get any path for iscsi disk, last err seen:\n{last_error.text if last_error else ''}"
        )

    async def _disk(self, portal: str, source: Source) -> str:
        path = _DISKS / f"ip-{portal}-iscsi-{source.iqn}-lun-{source.lun}"
        for _ in range(_LOOKS):
            if path.exists():
                return str(path)
            await self._host.clock.sleep(_WAIT_S)
        raise VolumeOperationError(f"Timed out waiting for device at path {path} after {_LOOKS}s")

    async def _secret(self, spec: VolumeSpec) -> Mapping[str, str]:
        source = _source(spec)
        if source.secretRef is None or not (source.chapAuthDiscovery or source.chapAuthSession):
            return {}
        namespace = getattr(source.secretRef, "namespace", "") or spec.pod.metadata.namespace
        secret = await self._host.objects.secret(namespace, source.secretRef.name)
        if secret is None:
            raise VolumeOperationError(
                f'couldn\'t get secret {namespace}/{source.secretRef.name} : secret "" not found'
            )
        return {key: value.decode() for key, value in secret.data.items()}

    async def unmount_device(self, device: DeviceMount) -> None:
        if not await run_in_thread(device.path.is_dir):
            return
        async with self._session(device):
            await self._detach(device)

    async def _detach(self, device: DeviceMount) -> None:
        await run_in_thread(self._host.mounter.unmount_and_remove, device.path)
        interface, (portal, iqn) = device.path.parent.name.removeprefix("iface-"), _portal_and_iqn(device.path.name)
        others = list(device.path.parent.glob(f"{portal}-{iqn}-lun-*"))
        for command in () if others else logout(portal, iqn, interface):
            await _run_iscsiadm(command, _NO_SESSION)

    def device_on_disk(self, uid: str, inner: str) -> DeviceMount | None:
        """Return the shared mount according to the stored note, if that names a valid location."""
        try:
            path = Path(self._note(uid, inner).read_text())
        except (OSError, ValueError):
            return None
        is_one = path.parent.parent == self._host.layout.plugin(NAME) and "-lun-" in path.name
        return _device_at(path) if is_one else None

    def devices_on_disk(self) -> Sequence[DeviceMount]:
        paths = self._host.layout.plugin(NAME).glob("iface-*/*-lun-*")
        return [_device_at(path) for path in sorted(paths)]

    def _note(self, uid: str, inner: str) -> Path:
        """Return the file in which the disk of a pod's volume is noted, because the directory of the volume does not
        reveal it.
        """
        return self._host.layout.notes(uid, NAME, inner) / "device"

    async def set_up(self, spec: VolumeSpec) -> ReadyVolume:
        device = await self.device(spec)
        target = self._host.layout.volume(spec.pod.metadata.uid, NAME, spec.inner)
        assert device is not None
        note = self._note(spec.pod.metadata.uid, spec.inner)
        await run_in_thread(_write, note, str(device.path))
        await run_in_thread(self._bind, spec, device.path, target)
        return ReadyVolume(path=target, is_read_only=_is_read_only(spec))

    def _bind(self, spec: VolumeSpec, source: Path, target: Path) -> None:
        if self._host.mounter.is_mounted(target):
            return
        is_read_only, security = _is_read_only(spec), spec.security
        target.mkdir(parents=True, exist_ok=True, mode=0o750)
        self._host.mounter.bind(source, target, is_read_only=is_read_only)
        if not is_read_only:
            give_to_group(target, security.fsGroup, is_read_only=False, policy=security.fsGroupChangePolicy)

    async def tear_down(self, uid: str, inner: str) -> None:
        target = self._host.layout.volume(uid, NAME, inner)
        await run_in_thread(self._host.mounter.unmount_and_remove, target)
        await run_in_thread(self._host.mounter.remove, self._note(uid, inner).parent)


def _device_at(path: Path) -> DeviceMount:
    portal, iqn = _portal_and_iqn(path.name)
    return DeviceMount(unique_name=f"{NAME}/{portal}:{iqn}:{path.name.rpartition('-lun-')[2]}", path=path)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    write_durably(file, text.encode(), mode=0o600)


def login(source: Source, portal: str, secret: Mapping[str, str]) -> list[Command]:
    """Return the iscsiadm commands for the login, in order. Pure."""
    discovery = ["-m", "discoverydb", "-t", "sendtargets", "-p", portal, "-I", _interface(source)]
    node = ["-m", "node", "-p", portal, "-T", source.iqn, "-I", _interface(source)]
    commands: list[Command] = [[*discovery, "-o", "new"]]
    if source.chapAuthDiscovery:
        commands += _chap(discovery, "discovery.sendtargets.auth", secret)
    commands += [[*discovery, "--discover"], [*node, "-o", "update", "-n", "node.session.scan", "-v", "manual"]]
    if source.chapAuthSession:
        commands += _chap(node, "node.session.auth", secret)
    return [*commands, [*node, "--login"], [*node[:-2], "-o", "update", "-n", "node.startup", "-v", "manual"]]


def _chap(command: Command, prefix: str, secret: Mapping[str, str]) -> list[Command]:
    pairs = [(f"{prefix}.authmethod", "CHAP")]
    pairs += [(name, secret[name]) for name in (f"{prefix}.{key}" for key in _DISCOVERY_KEYS) if secret.get(name)]
    return [[*command, "-o", "update", "-n", name, "-v", value] for name, value in pairs]


def logout(portal: str, iqn: str, interface: str) -> list[Command]:
    """Return the iscsiadm commands for the logout, in order. Pure."""
    node = ["-m", "node", "-p", portal, "-T", iqn, "-I", interface]
    return [[*node, "--logout"], [*node, "-o", "delete"]]


async def _run_iscsiadm(command: Command, code: int) -> None:
    try:
        await run_program("iscsiadm", *command)
    except CommandError as error:
        if error.code != code:
            raise VolumeOperationError(
                f"iscsi: failed to attach disk: Error: {error.output} (exit status {error.code})"
            ) from None


def _source(spec: VolumeSpec) -> Source:
    return spec.volume.iscsi or spec.source.iscsi or ISCSIVolumeSource()


def _is_read_only(spec: VolumeSpec) -> bool:
    return spec.is_read_only if spec.persistent is not None else _source(spec).readOnly


def _interface(source: Source) -> str:
    return source.iscsiInterface or "default"


def _portals(source: Source) -> list[str]:
    portals = [source.targetPortal, *source.portals]
    return list(dict.fromkeys(portal if ":" in portal else f"{portal}:{_PORT}" for portal in portals))


def _portal_and_iqn(name: str) -> tuple[str, str]:
    """Parse the name of the directory at which the disk is mounted."""
    portal, _, remainder = name.partition("-")
    return portal, remainder.rpartition("-lun-")[0]
