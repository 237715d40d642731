"""The node table: one row per node with columns as numpy arrays, updated row by row.

Only the scheduling loop accesses it. A pod is added when its node is selected, before it is bound (assumed), and
removed again if the binding fails. Rows of deleted nodes are reused; `valid` marks the rows that hold a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from sampan.api.types.core_v1 import Node
from sampan.api.values import quantity
from sampan.scheduler.cache.arrays import ChangeLog, Flags, Ints, Rows, grow_array
from sampan.scheduler.cache.label_columns import LabelColumn
from sampan.scheduler.cache.node_attributes import NodeImages, UsedHostPorts, UsedVolumeClaims, host_ports
from sampan.scheduler.cache.pod_counts import PodCounts
from sampan.scheduler.cache.pod_info import PodInfo, PodInfoTable
from sampan.scheduler.cache.pod_signature import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, PodSignature
from sampan.scheduler.cache.taints import TaintSets

_FIRST_SIZE = 64
_AMOUNTS = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
CPU_INDEX, MEMORY_INDEX, STORAGE_INDEX, PODS_INDEX = range(4)
"""The indexes in `allocatable` and `requested` of the resources that every node has."""


class NodeTable:
    def __init__(self, pods: PodInfoTable) -> None:
        size = _FIRST_SIZE
        self.size = size
        self.used = 0
        """The number of rows ever used; rows from here on are blank."""
        self.count = 0
        """The number of nodes."""
        self.rows: dict[str, int] = {}
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        self.pods: list[dict[str, PodInfo]] = []
        """The pods of each row by UID, including assumed pods."""
        self.valid: Flags = np.zeros(size, dtype=np.bool_)
        self.unschedulable: Flags = np.zeros(size, dtype=np.bool_)
        self.allocatable: Ints = np.zeros((len(_AMOUNTS), size), dtype=np.int64)
        self.requested: Ints = np.zeros((len(_AMOUNTS), size), dtype=np.int64)
        self.nonzero: Ints = np.zeros((2, size), dtype=np.int64)
        """Requested CPU and memory, with defaults for containers without requests."""
        self.taints = TaintSets(size)
        self.images = NodeImages()
        self.ports = UsedHostPorts()
        self.claims = UsedVolumeClaims()
        self.counts = PodCounts(pods, size)
        self.node_log, self.pod_log = ChangeLog(), ChangeLog()
        self.device_resources: frozenset[str] = frozenset()
        """Extended resources that device classes provide; a node without such a resource may have devices for it
        instead.
        """
        self.shape = 0
        """A version that is incremented when nodes are added or removed, or change labels or taints."""
        self._resources = {name: index for index, name in enumerate(_AMOUNTS)}
        self._columns: dict[str, LabelColumn] = {}
        self._free: list[int] = []
        self._pods_of_unknown_nodes: dict[str, dict[str, PodInfo]] = {}
        """Pods on unknown nodes, by node name."""

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def every_row(self) -> Rows:
        return slice(0, self.used)

    def column(self, key: str) -> LabelColumn:
        """Return the column of a label key, which is maintained from its first use on."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn(key, self.size)
            for row, node in self._enumerate_nodes():
                column.put(row, node.metadata.labels.get(key))
        return column

    def resource(self, name: str) -> int:
        """Return the index of a resource in `allocatable` and `requested`."""
        index = self._resources.get(name)
        if index is None:
            index = self._resources[name] = len(self._resources)
            blank = np.zeros((1, self.size), dtype=np.int64)
            self.allocatable = np.concatenate([self.allocatable, blank])
            self.requested = np.concatenate([self.requested, blank])
            for row, node in self._enumerate_nodes():
                self.allocatable[index, row] = amount_of(name, node.status.allocatable.get(name))
        return index

    def request_items(self, signature: PodSignature) -> list[tuple[int, int]]:
        """Return the requests as pairs of resource index and amount."""
        return signature.parse_once(
            "columns", lambda spec: [(self.resource(name), amount) for name, amount in signature.requests.items()]
        )

    def node_of(self, row: int) -> Node:
        node = self.nodes[row]
        if node is None:
            raise LookupError(f"row {row} of the node table has no node")
        return node

    def rows_of(self, names: Iterable[str]) -> NDArray[np.intp]:
        """Return the rows of the nodes that the table has, in ascending order."""
        return np.array(sorted(self.rows[name] for name in names if name in self.rows), dtype=np.intp)

    def set_device_resources(self, resources: frozenset[str]) -> None:
        """Set the extended resources that device classes provide, and invalidate all cached results."""
        self.device_resources = resources
        self.node_log.forget()

    # -- nodes -------------------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> int:
        """Add or update a node and return its row."""
        name = node.metadata.name
        row = self.rows.get(name)
        is_new = row is None
        if row is None:
            row = self._allocate_row(name)
        old = self.nodes[row]
        self.nodes[row] = node
        self._put_amounts(row, node)
        if old is None or old.status.images != node.status.images:
            self.images.put(row, node.status.images)
        if old is None or _changes_shape(old, node):
            self._put_shape(row, node)
        self.node_log.note(row)
        if is_new:
            for info in self._pods_of_unknown_nodes.pop(name, {}).values():
                self._add(info, row)
        return row

    def replace_node(self, node: Node) -> None:
        """Replace the Node object after a change that is irrelevant to scheduling."""
        row = self.rows.get(node.metadata.name)
        if row is not None:
            self.nodes[row] = node

    def remove_node(self, name: str) -> None:
        row = self.rows.pop(name, None)
        if row is None:
            return
        pods = dict(self.pods[row])
        for info in pods.values():
            self._take(info, row)
        if pods:
            self._pods_of_unknown_nodes[name] = pods
        self.valid[row] = False
        self.count -= 1
        self.nodes[row] = None
        self.images.put(row, ())
        for column in self._columns.values():
            column.put(row, None)
        self.shape += 1
        self.node_log.note(row)
        self._free.append(row)

    # -- pods --------------------------------------------------------------------------------------------------------

    def add_pod(self, info: PodInfo, node: str) -> None:
        """Count a pod that is bound to the node or assumed there."""
        row = self.rows.get(node)
        if row is None:
            self._pods_of_unknown_nodes.setdefault(node, {})[info.uid] = info
        else:
            self._add(info, row)

    def remove_pod(self, uid: str, node: str) -> PodInfo | None:
        row = self.rows.get(node)
        if row is None:
            pods = self._pods_of_unknown_nodes.get(node, {})
            removed = pods.pop(uid, None)
            if not pods:
                self._pods_of_unknown_nodes.pop(node, None)
            return removed
        info = self.pods[row].get(uid)
        if info is not None:
            self._take(info, row)
        return info

    def replace_pod(self, info: PodInfo, node: str) -> None:
        """Update a pod on the node, or add it if it is not there."""
        row = self.rows.get(node)
        old = self.pods[row].get(info.uid) if row is not None else None
        if row is not None and old is not None and old.counts_as(info):
            self.pods[row][info.uid] = info
            return
        self.remove_pod(info.uid, node)
        self.add_pod(info, node)

    def pod_on_node(self, uid: str, node: str) -> PodInfo | None:
        row = self.rows.get(node)
        return (self.pods[row] if row is not None else self._pods_of_unknown_nodes.get(node, {})).get(uid)

    def _add(self, info: PodInfo, row: int) -> None:
        self.pods[row][info.uid] = info
        self._count(info, row, 1)
        self.counts.add(info, row)

    def _take(self, info: PodInfo, row: int) -> None:
        del self.pods[row][info.uid]
        self._count(info, row, -1)
        self.counts.remove(info, row)

    def _count(self, info: PodInfo, row: int, sign: int) -> None:
        signature = info.signature
        items = self.request_items(signature)
        requested = self.requested
        for column, amount in items:
            requested[column, row] += sign * amount
        requested[PODS_INDEX, row] += sign
        cpu, memory = signature.nonzero
        self.nonzero[0, row] += sign * cpu
        self.nonzero[1, row] += sign * memory
        for port in signature.parse_once("ports", host_ports):
            self.ports.add(row, port, sign)
        self.claims.add(info, row, sign)
        self.pod_log.note(row)

    # -- parts -------------------------------------------------------------------------------------------------------

    def _enumerate_nodes(self) -> Iterator[tuple[int, Node]]:
        return ((row, node) for row, node in enumerate(self.nodes) if node is not None)

    def _allocate_row(self, name: str) -> int:
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = self.used
            if row == self.size:
                self._grow(self.size * 2)
            self.used += 1
            self.names.append(name)
            self.nodes.append(None)
            self.pods.append({})
        self.rows[name] = row
        self.valid[row] = True
        self.count += 1
        return row

    def _grow(self, size: int) -> None:
        self.size = size
        self.valid, self.unschedulable = (
            grow_array(self.valid, size, False),
            grow_array(self.unschedulable, size, False),
        )
        self.allocatable, self.requested = grow_array(self.allocatable, size), grow_array(self.requested, size)
        self.nonzero = grow_array(self.nonzero, size)
        self.taints.grow(size)
        for column in self._columns.values():
            column.grow(size)
        self.counts.grow(size)
        self.shape += 1

    def _put_amounts(self, row: int, node: Node) -> None:
        self.unschedulable[row] = node.spec.unschedulable
        allocatable = node.status.allocatable
        for name in allocatable:
            self.resource(name)
        for name, position in self._resources.items():
            self.allocatable[position, row] = amount_of(name, allocatable.get(name))

    def _put_shape(self, row: int, node: Node) -> None:
        self.taints.put(row, node.spec.taints)
        labels = node.metadata.labels
        for key, column in self._columns.items():
            column.put(row, labels.get(key))
        self.shape += 1


def amount_of(name: str, text: str | None) -> int:
    if text is None:
        return 0
    amount = quantity.parse(text)
    return amount.milli_value() if name == CPU else amount.value()


def _changes_shape(old: Node, new: Node) -> bool:
    return old.metadata.labels != new.metadata.labels or old.spec.taints != new.spec.taints
