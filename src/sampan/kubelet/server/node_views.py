"""Implementations of KubeletView: for a real node, and for a hollow one, whose pods are in the fleet's cache and whose
usage is the sum of its pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sampan.api.types.core_v1 import Pod
from sampan.api.values import quantity, times
from sampan.host.clock import Clock
from sampan.kubelet.records import NodeRecord
from sampan.kubelet.server.view import KubeletView
from sampan.kubelet.stats.collector import MachineReader, MachineStats, NodeStats, StatsCollector
from sampan.kubelet.stats.metrics_text import export_volumes
from sampan.kubelet.volumes.usage import VolumeUsageCache
from sampan.machinery.telemetry.build_info import export_build_info
from sampan.machinery.telemetry.feature_gates import export_feature_gates
from sampan.machinery.telemetry.health import HealthMetrics
from sampan.machinery.telemetry.metrics import Metrics, Sample, export_process
from sampan.runtimes.contract import RUNNING, Runtime

if TYPE_CHECKING:
    from sampan.kubelet.agent.kubelet import Kubelet  # Hollow nodes do not load this module.

Find = Callable[[str, str], Pod | None]


class AgentView:
    """A KubeletView of the kubelet of a real node."""

    def __init__(self, kubelet: Kubelet) -> None:
        self._kubelet = kubelet
        machine = MachineReader(directory=kubelet.config.root)
        machine.read(kubelet.clock.now())  # The first reading is the reference for CPU usage.
        self._collector = StatsCollector(
            node=self.node,
            runtime=kubelet.runtime,
            pods=kubelet.pods,
            machine=machine.read,
            clock=kubelet.clock,
            volumes=VolumeUsageCache(usage=lambda pod: kubelet.volumes.usage(pod), clock=kubelet.clock),
        )
        self._metrics = self._build_metrics()

    @property
    def node(self) -> str:
        return self._kubelet.config.name

    @property
    def runtime(self) -> Runtime:
        return self._kubelet.runtime

    def pods(self) -> Sequence[Pod]:
        return self._kubelet.pods()

    def find(self, namespace: str, name: str) -> Pod | None:
        return self._kubelet.find(namespace, name)

    @property
    def health_metrics(self) -> HealthMetrics:
        return self._kubelet.health_metrics

    def sync_loop_error(self) -> str:
        return "" if self._kubelet.started.is_set() else "the sync loop has not started yet"

    async def stats(self) -> NodeStats:
        return await self._collector.stats()

    def metrics_text(self) -> str:
        return self._metrics.text() + self._kubelet.metrics.registry.text()

    def probe_metrics_text(self) -> str:
        return self._kubelet.probe_metrics.text()

    def iter_running_containers(self) -> Iterator[tuple[Pod, str]]:
        """Yield pod and name of the running containers."""
        for pod in self.pods():
            for container in self.runtime.pod_report(pod).containers:
                if container.state == RUNNING:
                    yield pod, container.name

    def configuration(self) -> Mapping[str, Any]:
        config = self._kubelet.config
        return {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "port": config.port,
            "registerNode": config.registers,
            "maxPods": config.max_pods,
            "podsPerCore": config.pods_per_core,
            "kubeReserved": dict(config.kube_reserved),
            "systemReserved": dict(config.system_reserved),
            "evictionHard": dict(config.eviction_hard),
            "evictionSoft": dict(config.eviction_soft),
            "clusterDNS": list(config.cluster_dns),
            "clusterDomain": config.cluster_domain,
            "resolvConf": str(config.resolv_conf),
            "serializeImagePulls": config.serializes_pulls,
            "cgroupRoot": config.cgroup_root,
            "cgroupsPerQOS": config.has_cgroups_per_qos,
            "staticPodPath": str(config.static_pod_path or ""),
            "imageGCHighThresholdPercent": config.image_gc_high,
            "imageGCLowThresholdPercent": config.image_gc_low,
            "containerLogMaxSize": str(config.container_log_max_bytes),
            "containerLogMaxFiles": config.container_log_max_files,
            "allowedUnsafeSysctls": list(config.allowed_unsafe_sysctls),
        }

    def _build_metrics(self) -> Metrics:
        metrics = Metrics()
        export_process(metrics)
        export_build_info(metrics)
        export_feature_gates(metrics, self._kubelet.config.kubelet.feature_gates)
        export_volumes(metrics, lambda: self._collector.latest)
        export_pods(metrics, self)
        metrics.function(
            "volume_manager_total_volumes",
            "Volumes on the node by plugin and state.",
            lambda: self._kubelet.volumes.count_volumes().items(),
            ("plugin_name", "state"),
        )
        if (certificates := self._kubelet.volumes.pod_certificates) is not None:
            metrics.function(
                "kubelet_podcertificate_states",
                "Sources of projected volumes that contain a certificate of the pod, by signer and state.",
                lambda: certificates.count_states().items(),
                ("signer_name", "state"),
            )
        self._kubelet.client.metrics.export(metrics)
        return metrics


class HollowView:
    """A KubeletView of a hollow node."""

    def __init__(self, *, record: NodeRecord, pods: Callable[[], Sequence[Pod]], find: Find, clock: Clock) -> None:
        self._record, self._find, self._clock = record, find, clock
        self.pods, self.health_metrics = pods, HealthMetrics()
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
        metrics = Metrics()
        export_pods(metrics, self)
        return metrics.text()

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


def export_pods(metrics: Metrics, view: KubeletView) -> None:
    """Register the metrics of the node and its pods that every kubelet has."""

    def count_containers() -> Iterable[Sample]:
        states = (container.state for pod in view.pods() for container in view.runtime.pod_report(pod).containers)
        return (((state,), count) for state, count in Counter(states).items())

    metrics.gauge("kubelet_node_name", "The name of the node as a label; the value is always 1.", ("node",)).labels(
        view.node
    ).set(1)
    metrics.function(
        "kubelet_running_pods",
        "Pods with a running sandbox.",
        lambda: sum(view.runtime.pod_report(pod).is_sandbox_ready for pod in view.pods()),
    )
    metrics.function(
        "kubelet_running_containers", "Containers on the node by state.", count_containers, ("container_state",)
    )


def _amount(text: str) -> float:
    return quantity.from_json(text).milli_value() / 1000
