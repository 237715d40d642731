"""How long the event loop is blocked, and the nodes and pods of the large clusters in which that is measured."""

import asyncio
import time

from sampan.api.types.core_v1 import Container, Node, NodeStatus, Pod, PodSpec, PodStatus, ResourceRequirements
from sampan.api.types.meta_v1 import ObjectMeta

LONGEST_S = 0.05


async def longest_hold(until: asyncio.Event) -> float:
    """The most CPU time between two turns of this task."""
    longest = 0.0
    while not until.is_set():
        before = time.thread_time()
        await asyncio.sleep(0)
        longest = max(longest, time.thread_time() - before)
    return longest


def node(number: int) -> Node:
    name = f"n{number:05d}"
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{number % 3}"}
    return Node(metadata=ObjectMeta(name=name, uid=name, labels=labels), status=NodeStatus(allocatable=amounts))


def pod(name: str, node: str, cpu: str, priority: int) -> Pod:
    container = Container(name="c", image="i", resources=ResourceRequirements(requests={"cpu": cpu}))
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", uid=name, labels={"app": name[-1]}),
        spec=PodSpec(nodeName=node, containers=[container], priority=priority, schedulerName="default-scheduler"),
        status=PodStatus(phase="Running" if node else "Pending", startTime="2026-01-01T00:00:00Z"),
    )
