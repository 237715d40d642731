"""Pure functions that identify and build hollow nodes.

The fleet runs every node with the annotation `sampan.dev/runtime: hollow`, whoever created it. The annotation
`sampan.dev/power: off` powers its machine off.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sampan.api.codec.json import to_value
from sampan.api.semantics.nodes import internal_addresses
from sampan.api.types.core_v1 import Node, NodeSpec, NodeStatus, Taint
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.kubelet.node_status import CONTROLLER_ATTACHES, NodeMachine, build_node_labels, node_status
from sampan.machinery.hollow import HOLLOW, RUNTIME_ANNOTATION

RUNTIME = RUNTIME_ANNOTATION
POWER, OFF = "sampan.dev/power", "off"
CAPACITY = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
"""Capacity of a hollow node whose Node object does not declare any."""
NAME_PREFIX = "node-"
HOLLOW_TAINT = "hollow.sampan.dev/hollow"
"""Taint of hollow nodes in a cluster with real ones; it keeps out pods that do not tolerate it."""


def is_hollow(node: Node) -> bool:
    return node.metadata.annotations.get(RUNTIME) == HOLLOW


def is_powered_on(node: Node) -> bool:
    return node.metadata.annotations.get(POWER) != OFF


def has_hollow_taint(node: Node) -> bool:
    return any(taint.key == HOLLOW_TAINT for taint in node.spec.taints)


def hollow_taint_patch(node: Node, *, add: bool) -> dict[str, Any]:
    """Return a merge patch that adds or removes the hollow taint. Taints are an atomic list, so the patch contains all
    of them. It fails with Conflict if the node has changed since this version.
    """
    taints = [to_value(taint) for taint in node.spec.taints if taint.key != HOLLOW_TAINT]
    if add:
        taints.append({"key": HOLLOW_TAINT, "effect": "NoSchedule"})
    return {"metadata": {"resourceVersion": node.metadata.resourceVersion}, "spec": {"taints": taints or None}}


def hollow_node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    capacity: Mapping[str, str] | None = None,
) -> Node:
    """Return a Node object that makes the fleet run a node of this name."""
    meta = ObjectMeta(
        name=name,
        labels=build_node_labels(name) | dict(labels or {}),
        annotations={RUNTIME: HOLLOW, CONTROLLER_ATTACHES: "true"},
    )
    status = NodeStatus(capacity=dict(CAPACITY) | dict(capacity or {}))
    return Node(metadata=meta, spec=NodeSpec(taints=list(taints)), status=status)


def ready_node(name: str, machine: NodeMachine, now: float) -> Node:
    """Return a hollow node with its first status, as a kubelet registers it."""
    node = hollow_node(name, capacity=machine.capacity)
    node.status = node_status(node, machine, now)
    return node


def capacity_of(node: Node) -> dict[str, str]:
    return dict(CAPACITY) | dict(node.status.capacity)


def address_of(node: Node) -> str:
    """Return the internal IP of the node, or an empty string if it has none yet."""
    return next(map(str, internal_addresses(node)), "")


def free_names(existing: Iterable[str], count: int, prefix: str = NAME_PREFIX) -> list[str]:
    """Return `count` free node names, numbered after the highest existing one."""
    ends = [name.removeprefix(prefix) for name in existing if name.startswith(prefix)]
    first = max((int(end) for end in ends if end.isdecimal()), default=-1) + 1
    return [f"{prefix}{first + index}" for index in range(count)]


__all__ = [
    "CAPACITY",
    "HOLLOW",
    "HOLLOW_TAINT",
    "OFF",
    "POWER",
    "RUNTIME",
    "address_of",
    "capacity_of",
    "free_names",
    "has_hollow_taint",
    "hollow_node",
    "hollow_taint_patch",
    "is_hollow",
    "is_powered_on",
    "ready_node",
]
