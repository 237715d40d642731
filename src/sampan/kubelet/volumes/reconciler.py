"""One volume at a time from what is there to what is wanted: attached, mounted on the node, set up for its pod; or all
of that undone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from sampan.api.integers import parse_int64
from sampan.api.types.core_v1 import Node
from sampan.kubelet.volumes import subpaths
from sampan.kubelet.volumes.claims import Claims, check_node
from sampan.kubelet.volumes.contract import Device, NotAttached, Plugin, Ready, Spec, VolumeFault
from sampan.kubelet.volumes.growth import Growth
from sampan.kubelet.volumes.host import Host
from sampan.kubelet.volumes.plugins.table import Plugins
from sampan.kubelet.volumes.state import Actual, ActualVolume, DesiredPod, Key
from sampan.kubelet.volumes.waiting import in_thread
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed, PatchType
from sampan.machinery.keyed_locks import KeyedLocks

_ONE_POD = ["ReadWriteOncePod"]
_GROUP = "pv.beta.kubernetes.io/gid"


class Reconciler:
    def __init__(
        self,
        *,
        host: Host,
        plugins: Plugins,
        claims: Claims,
        growth: Growth,
        actual: Actual,
        node: Callable[[], Node | None],
    ) -> None:
        self._host, self._plugins, self._claims, self._actual, self._node = host, plugins, claims, actual, node
        self._growth = growth
        self._locks = KeyedLocks()
        """Of devices: one of their pods at a time."""
        self._mounted: set[str] = set()
        """Devices that this kubelet has mounted: once is enough."""
        self._reporting = asyncio.Lock()

    # -- setting up --------------------------------------------------------------------------------------------------

    async def set_up(self, key: Key, desired: DesiredPod, is_wanted: Callable[[], bool]) -> float | None:
        """In how many seconds it has to be done anew, if at all. VolumeFault."""
        volume = desired.volumes[key.name]
        spec = await self._claims.spec(desired.pod, volume, mounts=desired.mounts, devices=desired.devices)
        desired.faults.pop(key.name, None)
        desired.inner[key.name] = spec.inner
        plugin = self._plugins.of(spec)
        if spec.persistent is not None:
            check_node(spec.persistent, self._node())
        device = await plugin.device(spec)
        if not is_wanted():
            return None
        found = self._noted(key, spec, plugin, device)
        if device is not None:
            self._check_alone(key, spec, device)
            await self._mount_device(spec, plugin, device)
        ready = await self._guarded(plugin, spec)
        await self._growth.on_mount(spec, plugin, ready, device)
        found.ready = ready
        return ready.again_s

    async def look_at_size(self, key: Key, desired: DesiredPod) -> None:
        """Of a volume that is set up: it may have become larger. Where nobody can say, that waits."""
        volume, found = desired.volumes.get(key.name), self._actual.get(key)
        if volume is None or found is None or found.ready is None:
            return
        spec = await self._claims.spec(desired.pod, volume, mounts=desired.mounts, devices=desired.devices)
        await self._growth.in_use(spec, found.plugin, found.ready, found.device)

    async def is_exhausted(self, key: Key, desired: DesiredPod) -> bool:
        """It is not attached because the node can have no more such volumes."""
        volume = desired.volumes[key.name]
        spec = await self._claims.spec(desired.pod, volume, mounts=desired.mounts, devices=desired.devices)
        return await self._plugins.of(spec).is_exhausted(spec)

    def _noted(self, key: Key, spec: Spec, plugin: Plugin, device: Device | None) -> ActualVolume:
        """From here on there may be something to take down."""
        found = self._actual.get(key)
        if found is None:
            self._actual.remove(Key(key.uid, f"{plugin.name}/{spec.inner}"))
            found = ActualVolume(plugin=plugin, inner=spec.inner, device=device, group=_group(spec))
            self._actual.put(key, found)
        return found

    def _check_alone(self, key: Key, spec: Spec, device: Device) -> None:
        others = [
            user for user in self._actual.users(device.unique) if user.uid != key.uid and self._actual.ready(user)
        ]
        if others and spec.source.accessModes == _ONE_POD:
            raise VolumeFault("volume uses the ReadWriteOncePod access mode and is already in use by another pod")

    async def _mount_device(self, spec: Spec, plugin: Plugin, device: Device) -> None:
        async with self._locks.held(device.unique):
            self._actual.put_device(plugin, device)
            if device.is_attachable:
                await self.report_in_use()
                self._check_attached(device)
                await plugin.wait_for_attach(spec)
            if device.unique in self._mounted:
                return
            try:
                await plugin.mount_device(spec, device)
            except OSError as fault:
                raise VolumeFault(_told(fault), step="MountVolume.MountDevice failed") from fault
            self._mounted.add(device.unique)

    def _check_attached(self, device: Device) -> None:
        """By the word of the controller that has it attached; it takes that back before it has it detached."""
        node = self._node()
        if node is not None and not any(one.name == device.unique for one in node.status.volumesAttached):
            raise NotAttached("", step="Volume not attached according to node status")

    async def _guarded(self, plugin: Plugin, spec: Spec) -> Ready:
        try:
            return await plugin.set_up(spec)
        except OSError as fault:
            raise VolumeFault(_told(fault)) from fault

    # -- taking down -------------------------------------------------------------------------------------------------

    async def tear_down(self, key: Key) -> None:
        found = self._actual.get(key)
        if found is None:
            return
        found.ready = None
        layout = self._host.layout
        await in_thread(subpaths.clean, self._host.mounter, layout.subpaths(key.uid) / found.inner)
        await found.plugin.tear_down(key.uid, found.inner)
        self._actual.remove(key)
        self._growth.forget(found.inner)
        remove_empty(layout.volume(key.uid, found.plugin.name, found.inner).parent, layout.pod(key.uid))

    async def tear_down_device(self, unique: str) -> None:
        """Unless a pod uses it."""
        async with self._locks.held(unique):
            found = self._actual.device(unique)
            if found is None or self._actual.users(unique):
                return
            plugin, device = found
            self._mounted.discard(unique)
            await plugin.unmount_device(device)
            self._actual.forget_device(unique)
        if device.is_attachable:
            with contextlib.suppress(errors.ApiError, ConnectionFailed):
                await self.report_in_use()

    # -- parts -------------------------------------------------------------------------------------------------------

    async def report_in_use(self) -> None:
        """The node says which volumes it has in use before it uses them: nobody detaches those."""
        async with self._reporting:
            node, wanted = self._node(), self._actual.in_use()
            if node is None or sorted(node.status.volumesInUse) == wanted:
                return
            patch = {"status": {"volumesInUse": wanted}}
            await self._host.client.of(Node).patch(
                self._host.config.node_name, patch, type=PatchType.MERGE, subresource="status"
            )


def remove_empty(folder: Path, top: Path) -> None:
    """The folder and those above it, up to `top`, which stays, as long as nothing is in them."""
    while folder != top and top in folder.parents:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return
        folder = folder.parent


def _group(spec: Spec) -> int | None:
    text = spec.persistent.metadata.annotations.get(_GROUP, "") if spec.persistent is not None else ""
    group = parse_int64(text)
    return group if group is not None and group >= 0 else None


def _told(fault: OSError) -> str:
    where = f" {fault.filename}" if fault.filename else ""
    return f"{fault.strerror or fault}{where}".strip()


__all__ = ["Reconciler", "remove_empty"]
