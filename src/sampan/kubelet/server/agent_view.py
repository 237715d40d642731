"""Implements KubeletView for a real node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.agent.kubelet import Kubelet
from sampan.kubelet.stats.collector import NodeStats, StatsCollector
from sampan.kubelet.stats.machine import MachineReader
from sampan.kubelet.stats.metrics_text import export_volumes
from sampan.kubelet.volumes.usage import VolumeUsageCache
from sampan.machinery.metrics import Metrics
from sampan.machinery.process_metrics import export_process
from sampan.runtimes.contract import RUNNING, Runtime


class AgentView:
    """A KubeletView of a running kubelet."""

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
        self._metrics = self._exported()

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

    def sync_loop_error(self) -> str:
        return "" if self._kubelet.started.is_set() else "the sync loop has not started yet"

    async def stats(self) -> NodeStats:
        return await self._collector.stats()

    def metrics_text(self) -> str:
        return self._metrics.text()

    def probe_metrics_text(self) -> str:
        return self._kubelet.probe_metrics.text()

    def running(self) -> Iterator[tuple[Pod, str]]:
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

    def _exported(self) -> Metrics:
        metrics = Metrics()
        export_process(metrics)
        export_volumes(metrics, lambda: self._collector.latest)
        metrics.function(
            "kubelet_node_name", "The name of the node as a label; the value is always 1.", self._name, ("node",)
        )
        metrics.function("kubelet_running_pods", "Pods with a running sandbox.", self._sandboxes)
        metrics.function(
            "kubelet_running_containers", "Containers on the node by state.", self._containers, ("container_state",)
        )
        return metrics

    def _name(self) -> list[tuple[tuple[str, ...], float]]:
        return [((self.node,), 1)]

    def _sandboxes(self) -> float:
        return sum(self.runtime.pod_report(pod).is_sandbox_ready for pod in self.pods())

    def _containers(self) -> list[tuple[tuple[str, ...], float]]:
        counts: dict[str, int] = {}
        for pod in self.pods():
            for container in self.runtime.pod_report(pod).containers:
                counts[container.state] = counts.get(container.state, 0) + 1
        return [((state,), count) for state, count in counts.items()]
