"""Registers CSI drivers (`pkg/volume/csi/csi_plugin.go`), publishes them in the CSINode object and in the node's
annotation and labels (`nodeinfomanager`), and updates their volume limits (nodeAllocatableUpdatePeriodSeconds).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from sampan.api.codec import json
from sampan.api.go_compat import gotext
from sampan.api.types.core_v1 import Node
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.api.types.storage_v1 import CSIDriver, CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources
from sampan.host.clock import Clock
from sampan.kubelet.plugin_registry import PluginError
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.kubelet.volumes.csi.client import CsiDriverClient, CsiDrivers, NodeInfo
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, PatchType
from sampan.machinery.copies import copy_of
from sampan.machinery.informer import InformerFactory

log = logging.getLogger(__name__)

TYPE = "CSIPlugin"


class CsiHandler:
    def __init__(self, *, drivers: CsiDrivers, infos: CsiNodePublisher, on_driver: Callable[[str], None]) -> None:
        """`on_driver` receives the name of each new driver."""
        self._drivers, self._infos, self._on_driver = drivers, infos, on_driver
        self._endpoints: dict[str, set[str]] = {}

    def check(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        if why := validation_error(name, versions):
            raise PluginError(f"validation failed for CSI Driver {name} at endpoint {endpoint}: {why}")

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        driver = CsiDriverClient(name, endpoint)
        try:
            await self._infos.install(name, await driver.info())
        except (VolumeOperationError, errors.ApiError, ConnectionFailed) as error:
            raise PluginError(str(error)) from error
        self._drivers.add(driver)
        self._endpoints.setdefault(name, set()).add(endpoint)
        self._on_driver(name)

    async def refresh(self, name: str) -> None:
        """Publish the driver's current node information. Raise VolumeOperationError, ApiError or ConnectionFailed on
        errors.
        """
        driver = self._drivers.get(name, "updateCSIDriver")
        await self._infos.install(name, await driver.info())

    async def deregister(self, name: str, endpoint: str) -> None:
        endpoints = self._endpoints.get(name, set())
        endpoints.discard(endpoint)
        if endpoints:
            return
        self._drivers.remove(name)
        try:
            await self._infos.uninstall(name)
        except (errors.ApiError, ConnectionFailed) as error:
            log.warning("cannot remove CSI driver %s from the CSINode object: %s", name, error)


def validation_error(name: str, versions: Sequence[str]) -> str:
    """Return why the driver cannot be registered, or an empty string. Pure."""
    start = f'kubernetes.io/csi: ValidatePlugin for CSI driver "{name}" failed.'
    if not versions:
        return f"{start} Plugin returned an empty list for supported versions"
    if not any(version.lstrip("v").startswith("1.") for version in versions):
        quoted_versions = " ".join(gotext.quote(version) for version in versions)
        return f"{start} None of the versions specified [{quoted_versions}] are supported"
    return ""


IDS = "csi.volume.kubernetes.io/nodeid"
_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
_MIGRATED_PLUGINS = ("aws-ebs", "azure-disk", "azure-file", "cinder", "gce-pd", "portworx-volume", "vsphere-volume")
"""In-tree plugins that CSI migration has replaced."""
_MAX_VOLUMES = (1 << 31) - 1
_ATTEMPTS = 5


class CsiNodePublisher:
    def __init__(self, *, client: Client, node_name: str) -> None:
        self._nodes, self._csi_nodes, self._name = client.for_kind(Node), client.for_kind(CSINode), node_name

    async def ensure(self) -> CSINode:
        """Return the CSINode object of the node. A CSINode object that belongs to an earlier node of the same name is
        replaced.
        """
        node = await self._nodes.get(self._name)
        try:
            csi_node = await self._csi_nodes.get(self._name)
        except errors.NotFound:
            return await self._csi_nodes.create(make_csi_node(node))
        if any(owner.uid == node.metadata.uid for owner in csi_node.metadata.ownerReferences):
            return csi_node
        await self._csi_nodes.delete(self._name)
        return await self._csi_nodes.create(make_csi_node(node))

    async def install(self, driver: str, info: NodeInfo) -> None:
        if not info.node_id:
            raise VolumeOperationError("error adding CSI driver node info: driverNodeID must not be empty")
        await self._change_node(driver, info)
        await self._change_drivers(driver, info)

    async def uninstall(self, driver: str) -> None:
        await self._change_drivers(driver, None)
        await self._change_node(driver, None)

    async def _change_drivers(self, driver: str, info: NodeInfo | None) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            csi_node = await self.ensure()
            drivers = update_driver_list(csi_node.spec.drivers or (), driver, info)
            if drivers == csi_node.spec.drivers:
                return
            desired = copy_of(csi_node)
            desired.spec = CSINodeSpec(drivers=drivers)
            try:
                await self._csi_nodes.update(desired)
                return
            except errors.Conflict:
                if attempt == _ATTEMPTS:
                    raise

    async def _change_node(self, driver: str, info: NodeInfo | None) -> None:
        node = await self._nodes.get(self._name)
        meta = node_metadata_patch(node, driver, info)
        if meta:
            await self._nodes.patch(self._name, {"metadata": meta}, type=PatchType.MERGE)


def make_csi_node(node: Node) -> CSINode:
    owner = OwnerReference(apiVersion="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)
    notes = {_MIGRATED: ",".join(f"kubernetes.io/{name}" for name in _MIGRATED_PLUGINS)}
    meta = ObjectMeta(name=node.metadata.name, ownerReferences=[owner], annotations=notes)
    return CSINode(metadata=meta, spec=CSINodeSpec(drivers=[]))


def update_driver_list(drivers: Sequence[CSINodeDriver], name: str, info: NodeInfo | None) -> list[CSINodeDriver]:
    """Return the driver list of the CSINode object with the driver added or updated, or without it if `info` is None.
    Pure.
    """
    others = [driver for driver in drivers if driver.name != name]
    if info is None:
        return others
    limit = VolumeNodeResources(count=min(info.max_volumes, _MAX_VOLUMES)) if info.max_volumes > 0 else None
    own = CSINodeDriver(name=name, nodeID=info.node_id, topologyKeys=sorted(info.topology) or None, allocatable=limit)
    if any(_is_same(driver, own) for driver in drivers):
        return list(drivers)
    return [*others, own]


def _is_same(left: CSINodeDriver, right: CSINodeDriver) -> bool:
    return msgspec.structs.replace(left, topologyKeys=left.topologyKeys or None) == right


def node_metadata_patch(node: Node, driver: str, info: NodeInfo | None) -> Mapping[str, object]:
    """Return the merge patch of the node's metadata, empty if nothing has changed. Pure."""
    text = node.metadata.annotations.get(IDS, "")
    ids: dict[str, str] = json.read_any(text.encode()) if text else {}
    desired = {name: value for name, value in ids.items() if name != driver}
    labels: dict[str, str] = {}
    if info is not None:
        desired[driver] = info.node_id
        labels = _find_new_labels(node, info.topology)
    metadata: dict[str, object] = {}
    if desired != ids:
        drivers_text = json.encode(dict(sorted(desired.items()))).decode() if desired else None
        metadata["annotations"] = {IDS: drivers_text}
    if labels:
        metadata["labels"] = labels
    return metadata


def _find_new_labels(node: Node, topology: Mapping[str, str]) -> dict[str, str]:
    for key, value in topology.items():
        present = node.metadata.labels.get(key, value)
        if present != value:
            message = f'driver reported "{key}":"{value}" but existing label is "{key}":"{present}"'
            raise VolumeOperationError(f"detected topology value collision: {message}")
    return {key: value for key, value in topology.items() if key not in node.metadata.labels}


_TICK_S = 10.0
"""The shortest period at which volume limits are updated."""


class VolumeLimitUpdater:
    def __init__(
        self,
        *,
        drivers: CsiDrivers,
        informers: InformerFactory,
        clock: Clock,
        refresh: Callable[[str], Awaitable[None]],
    ) -> None:
        """`refresh` queries the named driver and publishes the result."""
        self._drivers, self._informers, self._clock, self._refresh = drivers, informers, clock, refresh
        self._updated_at: dict[str, float] = {}

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_TICK_S)
            for name in self._drivers.names():
                if await self._check_due(name):
                    await self._update(name)

    async def _check_due(self, name: str) -> bool:
        """Return whether the volume limit of the driver is due for an update."""
        informer = self._informers.for_kind(CSIDriver)
        await informer.synced.wait()
        period_s = update_period_s(informer.lister.get(name))
        since = self._updated_at.setdefault(name, self._clock.monotonic() - _TICK_S)
        return period_s > 0 and self._clock.monotonic() - since >= period_s

    async def _update(self, name: str) -> None:
        self._updated_at[name] = self._clock.monotonic()
        try:
            await self._refresh(name)
        except (VolumeOperationError, errors.ApiError, ConnectionFailed) as error:
            log.warning("cannot read the volume limit of CSI driver %s: %s", name, error)


def update_period_s(info: CSIDriver | None) -> int:
    """Return the period at which the driver's volume limit is updated, in seconds; 0 if there is none. Pure."""
    return (info.spec.nodeAllocatableUpdatePeriodSeconds or 0) if info is not None else 0
