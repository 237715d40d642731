"""Publishes the drivers of this node in the CSINode object and in the node's annotation and labels."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import msgspec

from sampan.api.codec import json
from sampan.api.types.core_v1 import Node
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.api.types.storage_v1 import CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources
from sampan.kubelet.volumes.contract import VolumeFault
from sampan.kubelet.volumes.csi.client import NodeInfo
from sampan.machinery import errors
from sampan.machinery.client import Client, PatchType
from sampan.machinery.copies import copy_of

log = logging.getLogger(__name__)

IDS = "csi.volume.kubernetes.io/nodeid"
_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
_LEFT = ("aws-ebs", "azure-disk", "azure-file", "cinder", "gce-pd", "portworx-volume", "vsphere-volume")
"""In-tree plug-ins that CSI migration has replaced."""
_MOST = (1 << 31) - 1
_ATTEMPTS = 5


class NodeInfos:
    def __init__(self, *, client: Client, node_name: str) -> None:
        self._nodes, self._csi_nodes, self._name = client.of(Node), client.of(CSINode), node_name

    async def ensure(self) -> CSINode:
        """Return the CSINode of the node. One that belongs to an earlier node of the same name is replaced."""
        node = await self._nodes.get(self._name)
        try:
            csi_node = await self._csi_nodes.get(self._name)
        except errors.NotFound:
            return await self._csi_nodes.create(made(node))
        if any(owner.uid == node.metadata.uid for owner in csi_node.metadata.ownerReferences):
            return csi_node
        await self._csi_nodes.delete(self._name)
        return await self._csi_nodes.create(made(node))

    async def install(self, driver: str, info: NodeInfo) -> None:
        if not info.node_id:
            raise VolumeFault("error adding CSI driver node info: driverNodeID must not be empty")
        await self._change_node(driver, info)
        await self._change_drivers(driver, info)

    async def uninstall(self, driver: str) -> None:
        await self._change_drivers(driver, None)
        await self._change_node(driver, None)

    async def _change_drivers(self, driver: str, info: NodeInfo | None) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            csi_node = await self.ensure()
            drivers = changed(csi_node.spec.drivers or (), driver, info)
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
        meta = changes(node, driver, info)
        if meta:
            await self._nodes.patch(self._name, {"metadata": meta}, type=PatchType.MERGE)


def made(node: Node) -> CSINode:
    owner = OwnerReference(apiVersion="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid)
    notes = {_MIGRATED: ",".join(f"kubernetes.io/{name}" for name in _LEFT)}
    meta = ObjectMeta(name=node.metadata.name, ownerReferences=[owner], annotations=notes)
    return CSINode(metadata=meta, spec=CSINodeSpec(drivers=[]))


def changed(drivers: Sequence[CSINodeDriver], name: str, info: NodeInfo | None) -> list[CSINodeDriver]:
    """Return the list with the driver added or updated, or without it if `info` is None. Pure."""
    others = [driver for driver in drivers if driver.name != name]
    if info is None:
        return others
    limit = VolumeNodeResources(count=min(info.most_volumes, _MOST)) if info.most_volumes > 0 else None
    own = CSINodeDriver(name=name, nodeID=info.node_id, topologyKeys=sorted(info.topology) or None, allocatable=limit)
    if any(_is_same(driver, own) for driver in drivers):
        return list(drivers)
    return [*others, own]


def _is_same(left: CSINodeDriver, right: CSINodeDriver) -> bool:
    return msgspec.structs.replace(left, topologyKeys=left.topologyKeys or None) == right


def changes(node: Node, driver: str, info: NodeInfo | None) -> Mapping[str, object]:
    """Return the merge patch of the node's metadata, empty if nothing has changed. Pure."""
    text = node.metadata.annotations.get(IDS, "")
    ids: dict[str, str] = json.read_any(text.encode()) if text else {}
    desired = {name: value for name, value in ids.items() if name != driver}
    labels: dict[str, str] = {}
    if info is not None:
        desired[driver] = info.node_id
        labels = _new_labels(node, info.topology)
    metadata: dict[str, object] = {}
    if desired != ids:
        kept = json.encode(dict(sorted(desired.items()))).decode() if desired else None
        metadata["annotations"] = {IDS: kept}
    if labels:
        metadata["labels"] = labels
    return metadata


def _new_labels(node: Node, topology: Mapping[str, str]) -> dict[str, str]:
    for key, value in topology.items():
        present = node.metadata.labels.get(key, value)
        if present != value:
            message = f'driver reported "{key}":"{value}" but existing label is "{key}":"{present}"'
            raise VolumeFault(f"detected topology value collision: {message}")
    return {key: value for key, value in topology.items() if key not in node.metadata.labels}
