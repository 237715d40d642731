"""Reconciles one volume at a time: attaches it, mounts it on the node and sets it up for its pod, or tears it down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from sampan.api.types.core_v1 import Node
from sampan.api.values.integers import parse_int64
from sampan.host.keyed_locks import KeyedLocks
from sampan.host.worker_thread import run_in_thread
from sampan.kubelet.metrics import KubeletMetrics
from sampan.kubelet.volumes import subpaths
from sampan.kubelet.volumes.claim_resolver import ClaimResolver, check_node
from sampan.kubelet.volumes.contract import (
    DeviceMount,
    NodeVolumePlugin,
    NotAttached,
    ReadyVolume,
    VolumeOperationError,
    VolumeSpec,
)
from sampan.kubelet.volumes.expansion import NodeExpander
from sampan.kubelet.volumes.plugins.plugin_table import VolumePlugins
from sampan.kubelet.volumes.state import ActualState, ActualVolume, DesiredPod, PodVolumeKey
from sampan.kubelet.volumes.volume_host import VolumeHost
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed, PatchType

_SINGLE_POD_MODES = ["ReadWriteOncePod"]
_GROUP = "pv.beta.kubernetes.io/gid"


class Reconciler:
    def __init__(
        self,
        *,
        host: VolumeHost,
        plugins: VolumePlugins,
        claims: ClaimResolver,
        expander: NodeExpander,
        actual: ActualState,
        node: Callable[[], Node | None],
        metrics: KubeletMetrics,
    ) -> None:
        self._host, self._plugins, self._claims, self._actual, self._node = host, plugins, claims, actual, node
        self._expander, self._metrics = expander, metrics
        self._locks = KeyedLocks()
        """Locks by shared mount, so that only one pod changes it at a time."""
        self._mounted: set[str] = set()
        """Shared mounts that this kubelet has mounted; they are not mounted again."""
        self._reporting = asyncio.Lock()

    # -- setup -------------------------------------------------------------------------------------------------------

    async def set_up(self, key: PodVolumeKey, desired: DesiredPod, is_desired: Callable[[], bool]) -> float | None:
        """Set up the volume. Return the seconds after which it has to be set up again, or None. Raise
        VolumeOperationError on errors.
        """
        volume = desired.volumes[key.name]
        spec = await self._claims.spec(desired.pod, volume, mounts=desired.mounts, devices=desired.devices)
        desired.claim_errors.pop(key.name, None)
        desired.inner[key.name] = spec.inner
        plugin = self._plugins.find_plugin_by_spec(spec)
        if spec.persistent is not None:
            check_node(spec.persistent, self._node())
        device = await plugin.device(spec)
        if not is_desired():
            return None
        actual_volume = self._record(key, spec, plugin, device)
        if device is not None:
            self._check_single_pod(key, spec, device)
            await self._mount_device(spec, plugin, device)
        with self._metrics.change_volume(plugin.name, "volume_mount"):
            ready = await self._set_up(plugin, spec)
        await self._expander.on_mount(spec, plugin, ready, device)
        actual_volume.ready = ready
        return ready.again_s

    async def expand_in_use(self, key: PodVolumeKey, desired: DesiredPod) -> None:
        """Expand a volume that is set up if it has become larger. If the claim cannot be read now, the expansion is
        retried later.
        """
        volume, actual_volume = desired.volumes.get(key.name), self._actual.get(key)
        if volume is None or actual_volume is None or actual_volume.ready is None:
            return
        spec = await self._claims.spec(desired.pod, volume, mounts=desired.mounts, devices=desired.devices)
        await self._expander.expand_in_use(spec, actual_volume.plugin, actual_volume.ready, actual_volume.device)

    async def is_exhausted(self, key: PodVolumeKey, desired: DesiredPod) -> bool:
        """Whether the volume is not attached because the node has reached its volume attachment limit."""
        volume = desired.volumes[key.name]
        spec = await self._claims.spec(desired.pod, volume, mounts=desired.mounts, devices=desired.devices)
        return await self._plugins.find_plugin_by_spec(spec).is_exhausted(spec)

    def _record(
        self, key: PodVolumeKey, spec: VolumeSpec, plugin: NodeVolumePlugin, device: DeviceMount | None
    ) -> ActualVolume:
        """Record the volume before it is set up: from now on it may have to be torn down."""
        volume = self._actual.get(key)
        if volume is None:
            self._actual.remove(PodVolumeKey(key.uid, f"{plugin.name}/{spec.inner}"))
            volume = ActualVolume(plugin=plugin, inner=spec.inner, device=device, group=_group(spec))
            self._actual.put(key, volume)
        return volume

    def _check_single_pod(self, key: PodVolumeKey, spec: VolumeSpec, device: DeviceMount) -> None:
        others = [
            user for user in self._actual.users(device.unique_name) if user.uid != key.uid and self._actual.ready(user)
        ]
        if others and spec.source.accessModes == _SINGLE_POD_MODES:
            raise VolumeOperationError(
                "volume uses the ReadWriteOncePod access mode and is already in use by another pod"
            )

    async def _mount_device(self, spec: VolumeSpec, plugin: NodeVolumePlugin, device: DeviceMount) -> None:
        """Mount the volume on the node, once for all of its pods. It is reported as in use before its attachment is
        checked, so that it is not detached in between.
        """
        async with self._locks.held(device.unique_name):
            self._actual.put_device(plugin, device)
            if device.is_attachable:
                await self.report_in_use()
                self._check_attached(device)
                await plugin.check_attached(spec)
            if device.unique_name in self._mounted:
                return
            try:
                await plugin.mount_device(spec, device)
            except OSError as error:
                raise VolumeOperationError(_os_error_text(error), step="MountVolume.MountDevice failed") from error
            self._mounted.add(device.unique_name)

    def _check_attached(self, device: DeviceMount) -> None:
        """Raise NotAttached unless the node status lists the volume as attached. The attach/detach controller removes a
        volume from that list before it detaches it.
        """
        node = self._node()
        if node is not None and not any(
            attached_volume.name == device.unique_name for attached_volume in node.status.volumesAttached
        ):
            raise NotAttached("", step="Volume not attached according to node status")

    async def _set_up(self, plugin: NodeVolumePlugin, spec: VolumeSpec) -> ReadyVolume:
        try:
            return await plugin.set_up(spec)
        except OSError as error:
            raise VolumeOperationError(_os_error_text(error)) from error

    # -- teardown ----------------------------------------------------------------------------------------------------

    async def tear_down(self, key: PodVolumeKey) -> None:
        volume = self._actual.get(key)
        if volume is None:
            return
        volume.ready = None
        layout = self._host.layout
        await run_in_thread(subpaths.clean, self._host.mounter, layout.subpaths(key.uid) / volume.inner)
        with self._metrics.change_volume(volume.plugin.name, "volume_unmount"):
            await volume.plugin.tear_down(key.uid, volume.inner)
        self._actual.remove(key)
        self._expander.forget(volume.inner)
        remove_empty(layout.volume(key.uid, volume.plugin.name, volume.inner).parent, layout.pod(key.uid))

    async def tear_down_device(self, unique_name: str) -> None:
        """Unmount the shared mount unless a pod uses it."""
        async with self._locks.held(unique_name):
            entry = self._actual.device(unique_name)
            if entry is None or self._actual.users(unique_name):
                return
            plugin, device = entry
            self._mounted.discard(unique_name)
            await plugin.unmount_device(device)
            self._actual.forget_device(unique_name)
        if device.is_attachable:
            with contextlib.suppress(errors.ApiError, ConnectionFailed):
                await self.report_in_use()

    # -- internals ---------------------------------------------------------------------------------------------------

    async def report_in_use(self) -> None:
        """Write volumesInUse of the node status. This happens before the volumes are used, because the attach/detach
        controller does not detach volumes that are listed there.
        """
        async with self._reporting:
            node, volumes_in_use = self._node(), self._actual.list_volumes_in_use()
            if node is None or sorted(node.status.volumesInUse) == volumes_in_use:
                return
            patch = {"status": {"volumesInUse": volumes_in_use}}
            await self._host.client.for_kind(Node).patch(
                self._host.config.node_name, patch, type=PatchType.MERGE, subresource="status"
            )


def remove_empty(directory: Path, top: Path) -> None:
    """Remove the directory and its parents up to but not including `top`, as long as they are empty."""
    while directory != top and top in directory.parents:
        try:
            directory.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            return
        directory = directory.parent


def _group(spec: VolumeSpec) -> int | None:
    text = spec.persistent.metadata.annotations.get(_GROUP, "") if spec.persistent is not None else ""
    group = parse_int64(text)
    return group if group is not None and group >= 0 else None


def _os_error_text(error: OSError) -> str:
    file_text = f" {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{file_text}".strip()
