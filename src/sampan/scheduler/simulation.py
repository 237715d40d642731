"""Scheduling without a cluster: nodes and pods in, a node or a diagnosis out, for experiments, tests and benchmarks.

Informers that plugins use are empty, and no request is ever sent.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import NoReturn

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.core_v1 import Node, Pod
from sampan.host.clock import Clock, VirtualClock
from sampan.machinery.client import Client, ConnectionFailed, Request
from sampan.machinery.client.codecs import ObjectCodec
from sampan.machinery.client.transport import Events
from sampan.machinery.informer import InformerFactory
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import PodInfo, PodInfoTable
from sampan.scheduler.cache.scheduler_cache import Nominator
from sampan.scheduler.config import ProfileConfig
from sampan.scheduler.framework.cluster_event import ClusterEventPublisher
from sampan.scheduler.framework.contract import CycleState, ScheduleResult
from sampan.scheduler.framework.framework import RoundRobin, SeededRandom
from sampan.scheduler.framework.handle import Handle
from sampan.scheduler.framework.waiting_pods import WaitingPods
from sampan.scheduler.plugins.registry import make_framework


class Simulation:
    def __init__(
        self,
        *,
        profile: ProfileConfig | None = None,
        seed: int | None = None,
        clock: Clock | None = None,
        feature_gates: FeatureGates | None = None,
    ) -> None:
        self.clock = clock or VirtualClock()
        client = Client(transport=_NoTransport(), clock=self.clock, component="simulation")
        self.pods = PodInfoTable()
        self.table = NodeTable(self.pods)
        self.handle = Handle(
            table=self.table,
            clock=self.clock,
            informers=InformerFactory(client=client),
            client=client,
            nominator=Nominator(),
            waiting=WaitingPods(),
            cluster_events=ClusterEventPublisher(),
            feature_gates=feature_gates or FeatureGates(),
        )
        tie_breaker = RoundRobin() if seed is None else SeededRandom(seed)
        self.profile = make_framework(profile or ProfileConfig(), self.handle, tie_breaker)

    def add_node(self, node: Node) -> None:
        self.table.put_node(node)

    def add_pod(self, pod: Pod) -> PodInfo:
        """Add a pod that is bound to a node."""
        info = self.pods.info(pod)
        self.table.add_pod(info, pod.spec.nodeName)
        return info

    def cycle(self, pod: Pod) -> CycleState:
        return self.profile.cycle(self.pods.info(pod), self.clock.now())

    def select_node(self, pod: Pod) -> ScheduleResult:
        """Return the node that the pod would get, without changing anything."""
        return self.profile.select_node(self.cycle(pod))

    def schedule(self, pod: Pod) -> str:
        """Add the pod to the best node and return the node's name, or "" if none fits."""
        cycle = self.cycle(pod)
        result = self.profile.select_node(cycle)
        if result.diagnosis is not None:
            return ""
        node = self.table.names[result.row]
        self.table.add_pod(cycle.info, node)
        return node


class _NoTransport:
    """A transport whose requests always fail."""

    async def send(self, request: Request) -> NoReturn:
        raise ConnectionFailed("a simulation cannot send requests to an API server", may_have_happened=False)

    def watch(self, request: Request, codec: ObjectCodec) -> AbstractAsyncContextManager[Events]:
        raise ConnectionFailed("a simulation cannot send requests to an API server", may_have_happened=False)

    async def close(self) -> None:
        pass
