"""The state of a cluster, kept up to date object by object, and the overview of it as a value for JSON."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from sampan.dashboard.overview.objects import (
    OverviewEvent,
    OverviewNode,
    OverviewPod,
    OverviewWorkload,
    condition,
    milli,
    requests_of,
)
from sampan.dashboard.overview.problems import (
    CRITICAL,
    WORKLOADS,
    Problem,
    node_problem,
    pod_problem,
    pressures_of,
    workload_health,
    workload_problem,
)

_NODES = 200
_PROBLEMS = 100
_EVENTS = 50
_MAX_EVENTS = 500
_MAX_MESSAGE = 300


class PodSummary(msgspec.Struct, gc=False, frozen=True):
    node: str
    phase: str
    is_ready: bool
    cpu_milli: int
    memory_bytes: int
    problem: Problem | None


class NodeSummary(msgspec.Struct, gc=False, frozen=True):
    is_ready: bool
    is_unschedulable: bool
    pressures: list[str]
    cpu_milli: int
    memory_bytes: int
    pods: int
    runtime: str
    kubelet: str
    platform: str
    has_pod_cidr: bool
    boot_id: str
    """The identity of the running kernel, which nodes on one machine share; empty if the node reports none."""
    problem: Problem | None


class WorkloadSummary(msgspec.Struct, gc=False, frozen=True):
    health: str
    problem: Problem | None


class UnreadableKind(msgspec.Struct, frozen=True):
    """A kind that the overview cannot read, because the person may not list it or because the requests fail."""

    is_forbidden: bool
    message: str


class ClusterState:
    def __init__(self) -> None:
        self.pods: dict[str, PodSummary] = {}
        self.nodes: dict[str, NodeSummary] = {}
        self.workloads: dict[str, dict[str, WorkloadSummary]] = {resource: {} for resource in WORKLOADS}
        self.events: dict[str, OverviewEvent] = {}
        self.node_usage: Mapping[str, tuple[int, int]] = {}
        """CPU in millicores and memory in bytes by node, from the metrics API."""
        self.components: list[dict[str, Any]] = []
        self.store: dict[str, Any] | None = None
        self.network: dict[str, Any] = {}
        self.version = 0
        """A number that grows with every change of the state."""

    # -- changes -----------------------------------------------------------------------------------------------------

    def put_pod(self, pod: OverviewPod) -> None:
        cpu, memory = requests_of(pod)
        ready = condition(pod.status.conditions, "Ready")
        phase = "Terminating" if pod.metadata.deletionTimestamp else pod.status.phase or "Pending"
        self._put(
            self.pods,
            pod.metadata.key,
            PodSummary(
                node=pod.spec.nodeName or "",
                phase=phase,
                is_ready=ready is not None and ready.status == "True",
                cpu_milli=cpu,
                memory_bytes=memory,
                problem=pod_problem(pod),
            ),
        )

    def put_node(self, node: OverviewNode) -> None:
        allocatable, info = node.status.allocatable or {}, node.status.nodeInfo
        ready = condition(node.status.conditions, "Ready")
        self._put(
            self.nodes,
            node.metadata.name,
            NodeSummary(
                is_ready=ready is not None and ready.status == "True",
                is_unschedulable=node.spec.unschedulable,
                pressures=pressures_of(node),
                cpu_milli=milli(str(allocatable.get("cpu", "0"))),
                memory_bytes=milli(str(allocatable.get("memory", "0"))) // 1000,
                pods=milli(str(allocatable.get("pods", "0"))) // 1000,
                runtime=info.containerRuntimeVersion if info is not None else "",
                kubelet=info.kubeletVersion if info is not None else "",
                platform=f"{info.operatingSystem}/{info.architecture}".strip("/") if info is not None else "",
                has_pod_cidr=bool(node.spec.podCIDRs),
                boot_id=info.bootID if info is not None else "",
                problem=node_problem(node),
            ),
        )

    def put_workload(self, resource: str, workload: OverviewWorkload) -> None:
        summary = WorkloadSummary(workload_health(resource, workload), workload_problem(resource, workload))
        self._put(self.workloads[resource], workload.metadata.key, summary)

    def put_event(self, event: OverviewEvent) -> None:
        self.events[event.metadata.key] = event
        if len(self.events) > 2 * _MAX_EVENTS:
            latest = heapq.nlargest(_MAX_EVENTS, self.events.values(), key=lambda candidate: candidate.time)
            self.events = {candidate.metadata.key: candidate for candidate in latest}
        self.version += 1

    def remove(self, summaries: dict[str, Any], key: str) -> None:
        if summaries.pop(key, None) is not None:
            self.version += 1

    def reset(self, summaries: dict[str, Any]) -> None:
        summaries.clear()
        self.version += 1

    def _put(self, summaries: dict[str, Any], key: str, summary: Any) -> None:
        if summaries.get(key) != summary:
            summaries[key] = summary
            self.version += 1

    # -- the overview ------------------------------------------------------------------------------------------------

    def overview(self, unreadable: Mapping[str, UnreadableKind]) -> dict[str, Any]:
        """Return the overview. `unreadable` are the resources that cannot be read: what is known about them may be
        missing or old."""
        used: dict[str, list[int]] = {}
        phases: Counter[str] = Counter()
        not_ready = 0
        for pod in self.pods.values():
            phases[pod.phase] += 1
            if pod.phase == "Running" and not pod.is_ready:
                not_ready += 1
            if pod.node and pod.phase not in ("Succeeded", "Failed"):
                sums = used.setdefault(pod.node, [0, 0, 0])
                sums[0] += pod.cpu_milli
                sums[1] += pod.memory_bytes
                sums[2] += 1
        return {
            "nodes": self._nodes(used),
            "pods": {"count": len(self.pods), "phases": dict(phases), "notReady": not_ready},
            "workloads": {
                resource: {"count": len(summaries), **_health_counts(summaries)}
                for resource, summaries in self.workloads.items()
            },
            **self._problems(),
            "events": [_event_value(event) for event in self._latest_events()],
            "unreadable": [
                {"resource": resource, "forbidden": kind.is_forbidden, "message": kind.message[:_MAX_MESSAGE]}
                for resource, kind in unreadable.items()
            ],
            "components": self.components,
            **({} if "nodes" in unreadable else {"runtime": self._versions()}),
            **({"store": self.store} if self.store is not None else {}),
            "network": self.network | ({} if "nodes" in unreadable else self._pod_cidrs()),
        }

    def _nodes(self, used: Mapping[str, list[int]]) -> dict[str, Any]:
        def rank(entry: tuple[str, NodeSummary]) -> tuple[bool, bool, float, str]:
            name, node = entry
            sums = used.get(name, (0, 0, 0))
            shares = (sums[0] / (node.cpu_milli or 1), sums[1] / (node.memory_bytes or 1))
            return node.is_ready, not node.pressures, -max(shares), name

        worst = heapq.nsmallest(_NODES, self.nodes.items(), key=rank)
        machines = self._machines()
        return {
            "count": len(self.nodes),
            "ready": sum(node.is_ready for node in self.nodes.values()),
            "unschedulable": sum(node.is_unschedulable for node in self.nodes.values()),
            "machines": len(machines),
            "allocatable": _amounts(
                sum(max(self.nodes[name].cpu_milli for name in names) for names in machines),
                sum(max(self.nodes[name].memory_bytes for name in names) for names in machines),
                sum(node.pods for node in self.nodes.values()),
            ),
            "requests": _amounts(*(sum(sums[place] for sums in used.values()) for place in range(3))),
            "usage": self._total_usage(machines),
            "items": [self._node_value(name, node, used.get(name, [0, 0, 0])) for name, node in worst],
            "more": max(0, len(self.nodes) - len(worst)),
        }

    def _machines(self) -> list[list[str]]:
        """Return the names of the nodes on each machine. Each of several nodes on one machine reports the CPU and
        memory of the whole machine, and their use."""
        machines: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            machines.setdefault(node.boot_id or f"node {name}", []).append(name)
        return list(machines.values())

    def _node_value(self, name: str, node: NodeSummary, sums: list[int]) -> dict[str, Any]:
        usage = self.node_usage.get(name)
        return {
            "name": name,
            "ready": node.is_ready,
            "unschedulable": node.is_unschedulable,
            "pressures": node.pressures,
            "allocatable": _amounts(node.cpu_milli, node.memory_bytes, node.pods),
            "requests": _amounts(*sums),
            "usage": {"cpu": usage[0] / 1000, "memory": usage[1]} if usage is not None else None,
        }

    def _total_usage(self, machines: list[list[str]]) -> dict[str, float] | None:
        if not self.node_usage:
            return None
        by_machine = [[self.node_usage[name] for name in names if name in self.node_usage] for names in machines]
        return {
            "cpu": sum(max(cpu for cpu, _ in usages) for usages in by_machine if usages) / 1000,
            "memory": sum(max(memory for _, memory in usages) for usages in by_machine if usages),
        }

    def _problems(self) -> dict[str, Any]:
        sources: list[Mapping[str, PodSummary | NodeSummary | WorkloadSummary]] = [
            self.nodes,
            *self.workloads.values(),
            self.pods,
        ]
        problems = [
            summary.problem for summaries in sources for summary in summaries.values() if summary.problem is not None
        ]
        shown = heapq.nsmallest(_PROBLEMS, problems, key=lambda problem: problem.severity != CRITICAL)
        return {"problems": shown, "problemCount": len(problems)}

    def _latest_events(self) -> list[OverviewEvent]:
        return heapq.nlargest(_EVENTS, self.events.values(), key=lambda event: event.time)

    def _versions(self) -> dict[str, dict[str, int]]:
        return {
            "containerRuntimes": dict(Counter(node.runtime for node in self.nodes.values() if node.runtime)),
            "kubelets": dict(Counter(node.kubelet for node in self.nodes.values() if node.kubelet)),
            "platforms": dict(Counter(node.platform for node in self.nodes.values() if node.platform)),
        }

    def _pod_cidrs(self) -> dict[str, int]:
        return {"nodesWithPodCidr": sum(node.has_pod_cidr for node in self.nodes.values())}


def _amounts(cpu_milli: int, memory_bytes: int, pods: int) -> dict[str, float]:
    return {"cpu": cpu_milli / 1000, "memory": memory_bytes, "pods": pods}


def _health_counts(summaries: Mapping[str, WorkloadSummary]) -> dict[str, int]:
    counts = Counter(summary.health for summary in summaries.values())
    return {health: counts.get(health, 0) for health in ("healthy", "degraded", "failed")}


def _event_value(event: OverviewEvent) -> dict[str, Any]:
    involved = event.involvedObject
    return {
        "key": event.metadata.key,
        "time": event.time,
        "reason": event.reason or "",
        "message": (event.message or "")[:_MAX_MESSAGE],
        "count": event.count or 1,
        "object": {
            "apiVersion": involved.apiVersion or "",
            "kind": involved.kind or "",
            "namespace": involved.namespace or "",
            "name": involved.name or "",
        },
    }
