"""Which Node objects are hollow nodes, and how one is made. Pure.

A node with the annotation `sampan.dev/runtime: hollow` is run by the fleet, whoever made it; with
`sampan.dev/power: off` besides, its machine is switched off.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sampan.api.codec.json import to_value
from sampan.api.types.core_v1 import Node, NodeSpec, NodeStatus, Taint
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.kubelet.node_status import CONTROLLER_ATTACHES, Machine, node_status, own_labels
from sampan.machinery.hollow import HOLLOW, RUNTIME_ANNOTATION

RUNTIME = RUNTIME_ANNOTATION
POWER, OFF = "sampan.dev/power", "off"
CAPACITY = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
"""Of a node that does not say what it has."""
NAME_PREFIX = "node-"
HOLLOW_TAINT = "hollow.sampan.dev/hollow"
"""Of hollow nodes beside real ones: real pods that do not ask for it must not land there."""


def is_hollow(node: Node) -> bool:
    return node.metadata.annotations.get(RUNTIME) == HOLLOW


def is_on(node: Node) -> bool:
    return node.metadata.annotations.get(POWER) != OFF


def has_hollow_taint(node: Node) -> bool:
    return any(taint.key == HOLLOW_TAINT for taint in node.spec.taints)


def hollow_taint_patch(node: Node, *, add: bool) -> dict[str, Any]:
    """A merge patch of this version of the node that adds the taint or removes it. Taints are an atomic list: the patch
    names all of them, and fails with Conflict if somebody has changed the node meanwhile."""
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
    """A node for the fleet to run, as anybody may create it who may create nodes."""
    meta = ObjectMeta(
        name=name,
        labels=own_labels(name) | dict(labels or {}),
        annotations={RUNTIME: HOLLOW, CONTROLLER_ATTACHES: "true"},
    )
    status = NodeStatus(capacity=dict(CAPACITY) | dict(capacity or {}))
    return Node(metadata=meta, spec=NodeSpec(taints=list(taints)), status=status)


def ready_node(name: str, machine: Machine, now: float) -> Node:
    """The same with its first status, as a kubelet registers its node."""
    node = hollow_node(name, capacity=machine.capacity)
    node.status = node_status(node, machine, now)
    return node


def capacity_of(node: Node) -> dict[str, str]:
    return dict(CAPACITY) | dict(node.status.capacity)


def address_of(node: Node) -> str:
    """The node's own address; empty if it has none yet."""
    return next((found.address for found in node.status.addresses if found.type == "InternalIP"), "")


def free_names(taken: Iterable[str], count: int, prefix: str = NAME_PREFIX) -> list[str]:
    """The next names: the numbers go on after the highest that there is."""
    ends = [name.removeprefix(prefix) for name in taken if name.startswith(prefix)]
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
    "is_on",
    "ready_node",
]
