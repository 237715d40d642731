"""Implements KubeletView for a hollow node: its pods are in the fleet's cache, its usage is the sum of its pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sampan.api import quantity, times
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.records import NodeRecord
from sampan.kubelet.stats.collector import NodeStats, StatsCollector
from sampan.kubelet.stats.machine import MachineStats
from sampan.machinery.clock import Clock
from sampan.runtimes.contract import Runtime

Find = Callable[[str, str], Pod | None]


class HollowView:
    """A KubeletView of a hollow node."""

    def __init__(self, *, record: NodeRecord, pods: Callable[[], Sequence[Pod]], find: Find, clock: Clock) -> None:
        self._record, self._find, self._clock = record, find, clock
        self.pods = pods
        self._collector = StatsCollector(
            node=record.name, runtime=record.runtime, pods=pods, machine=self._machine, clock=clock
        )

    @property
    def node(self) -> str:
        return self._record.name

    @property
    def runtime(self) -> Runtime:
        return self._record.runtime

    def find(self, namespace: str, name: str) -> Pod | None:
        pod = self._find(namespace, name)
        return pod if pod is not None and pod.spec.nodeName == self.node else None

    def configuration(self) -> Mapping[str, Any]:
        return {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "registerNode": True}

    def sync_loop_error(self) -> str:
        return ""

    async def stats(self) -> NodeStats:
        collected = await self._collector.stats()
        usages = [usage for pod in collected.pods for usage in pod.usages]
        cores = sum(usage.cpu_cores for usage in usages)
        memory = sum(usage.memory_bytes for usage in usages)
        return NodeStats(
            node=self.node, machine=self._machine(collected.machine.at, cores, memory), pods=collected.pods
        )

    def metrics_text(self) -> str:
        return ""

    def probe_metrics_text(self) -> str:
        return ""

    def _machine(self, now: float, cores: float = 0.0, used: int = 0) -> MachineStats:
        node = self._record.api_node
        booted = times.parse_time(node.metadata.creationTimestamp) if node.metadata.creationTimestamp else 0.0
        memory = int(_amount(node.status.capacity.get("memory", "0")))
        return MachineStats(
            at=now,
            cores=int(_amount(node.status.capacity.get("cpu", "1"))) or 1,
            cpu_cores=cores,
            cpu_s=cores * max(now - booted, 0),
            memory=memory,
            memory_used=used,
            memory_available=max(memory - used, 0),
            working_set=used,
            booted_at=booted,
        )


def _amount(text: str) -> float:
    return quantity.from_json(text).milli_value() / 1000
