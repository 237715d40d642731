"""Scheduling without a cluster: nodes and pods in, a node or a diagnosis out, for experiments, tests and benchmarks.

Informers that plug-ins use are empty, and no request is ever sent.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import NoReturn

from sampan.api.types.core_v1 import Node, Pod
from sampan.machinery.client import Client, ConnectionFailed, Request
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.client.transport import Events
from sampan.machinery.clock import Clock, VirtualClock
from sampan.machinery.informer import InformerFactory
from sampan.scheduler.config import ProfileConfig
from sampan.scheduler.framework.contract import Cycle, Handle
from sampan.scheduler.framework.profile import Placed
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.nominations import Nominations
from sampan.scheduler.picking import InTurn, Seeded
from sampan.scheduler.pod_info import PodInfo, PodTable
from sampan.scheduler.registry import make_profile
from sampan.scheduler.waiting import WaitingPods


class Simulation:
    def __init__(
        self, *, profile: ProfileConfig | None = None, seed: int | None = None, clock: Clock | None = None
    ) -> None:
        self.clock = clock or VirtualClock()
        client = Client(transport=_Nowhere(), clock=self.clock, component="simulation")
        self.pods = PodTable()
        self.table = NodeTable(self.pods)
        self.handle = Handle(
            table=self.table,
            clock=self.clock,
            informers=InformerFactory(client=client),
            client=client,
            nominations=Nominations(),
            waiting=WaitingPods(),
            on_event=lambda event, old, new: 0,
        )
        picker = InTurn() if seed is None else Seeded(seed)
        self.profile = make_profile(profile or ProfileConfig(), self.handle, picker)

    def add_node(self, node: Node) -> None:
        self.table.put_node(node)

    def add_pod(self, pod: Pod) -> PodInfo:
        """Add a pod that is bound to a node."""
        info = self.pods.info(pod)
        self.table.add_pod(info, pod.spec.nodeName)
        return info

    def cycle(self, pod: Pod) -> Cycle:
        return self.profile.cycle(self.pods.info(pod), self.clock.now())

    def place(self, pod: Pod) -> Placed:
        """Return the node that the pod would get, without changing anything."""
        return self.profile.place(self.cycle(pod))

    def schedule(self, pod: Pod) -> str:
        """Add the pod to the best node and return the node's name, or "" if none fits."""
        cycle = self.cycle(pod)
        placed = self.profile.place(cycle)
        if placed.diagnosis is not None:
            return ""
        node = self.table.names[placed.row]
        self.table.add_pod(cycle.info, node)
        return node


class _Nowhere:
    """A transport whose requests always fail."""

    async def send(self, request: Request) -> NoReturn:
        raise ConnectionFailed("a simulation has no server", may_have_happened=False)

    def watch(self, request: Request, codec: ObjectCodec) -> AbstractAsyncContextManager[Events]:
        raise ConnectionFailed("a simulation has no server", may_have_happened=False)

    async def close(self) -> None:
        pass
