"""Resource usage in Prometheus format for /metrics/resource and /metrics/cadvisor, with the metric names of
Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from sampan.kubelet.stats.collector import NodeStats, PodStats
from sampan.kubelet.stats.summary import interfaces_of, total
from sampan.machinery.telemetry.metrics import Metrics, escape_label
from sampan.runtimes.contract import ContainerUsage, InterfaceCounters

Sample = tuple[str, Mapping[str, str], float]
"""Name, labels and value."""

_HELP = {
    "node_cpu_usage_seconds_total": ("counter", "Cumulative cpu time consumed by the node in core-seconds"),
    "node_memory_working_set_bytes": ("gauge", "Current working set of the node in bytes"),
    "node_swap_usage_bytes": ("gauge", "Current swap usage of the node in bytes"),
    "pod_cpu_usage_seconds_total": ("counter", "Cumulative cpu time consumed by the pod in core-seconds"),
    "pod_memory_working_set_bytes": ("gauge", "Current working set of the pod in bytes"),
    "container_start_time_seconds": ("gauge", "Start time of the container since unix epoch in seconds"),
    "container_cpu_usage_seconds_total": ("counter", "Cumulative cpu time consumed in seconds."),
    "container_memory_working_set_bytes": ("gauge", "Current working set in bytes."),
    "container_memory_usage_bytes": ("gauge", "Current memory usage in bytes, including all memory."),
    "container_memory_rss": ("gauge", "Size of RSS in bytes."),
    "container_fs_usage_bytes": ("gauge", "Number of bytes that are consumed by the container on this filesystem."),
    "container_processes": ("gauge", "Number of processes running inside the container."),
    "container_memory_cache": ("gauge", "Number of bytes of page cache memory."),
    "container_memory_swap": ("gauge", "Container swap usage in bytes."),
    "container_cpu_cfs_periods_total": ("counter", "Number of elapsed enforcement period intervals."),
    "container_cpu_cfs_throttled_periods_total": ("counter", "Number of throttled period intervals."),
    "container_cpu_cfs_throttled_seconds_total": ("counter", "Total time duration the container has been throttled."),
    "container_fs_reads_total": ("counter", "Cumulative count of reads completed"),
    "container_fs_writes_total": ("counter", "Cumulative count of writes completed"),
    "container_fs_reads_bytes_total": ("counter", "Cumulative count of bytes read"),
    "container_fs_writes_bytes_total": ("counter", "Cumulative count of bytes written"),
    "container_network_receive_bytes_total": ("counter", "Cumulative count of bytes received"),
    "container_network_receive_packets_total": ("counter", "Cumulative count of packets received"),
    "container_network_receive_errors_total": ("counter", "Cumulative count of errors encountered while receiving"),
    "container_network_receive_packets_dropped_total": (
        "counter",
        "Cumulative count of packets dropped while receiving",
    ),
    "container_network_transmit_bytes_total": ("counter", "Cumulative count of bytes transmitted"),
    "container_network_transmit_packets_total": ("counter", "Cumulative count of packets transmitted"),
    "container_network_transmit_errors_total": ("counter", "Cumulative count of errors encountered while transmitting"),
    "container_network_transmit_packets_dropped_total": (
        "counter",
        "Cumulative count of packets dropped while transmitting",
    ),
    "machine_cpu_cores": ("gauge", "Number of logical CPU cores."),
    "machine_memory_bytes": ("gauge", "Amount of memory installed on the machine."),
    "resource_scrape_error": ("gauge", "1 if there was an error while getting container metrics, 0 otherwise"),
    "scrape_error": ("gauge", "1 if there was an error while getting container metrics, 0 otherwise"),
}


def resource_text(node_stats: NodeStats) -> str:
    return format_samples(_resource(node_stats), node_stats.machine.at)


def cadvisor_text(node_stats: NodeStats) -> str:
    return format_samples(_cadvisor(node_stats), node_stats.machine.at)


def _resource(node_stats: NodeStats) -> Iterator[Sample]:
    machine = node_stats.machine
    yield "node_cpu_usage_seconds_total", {}, machine.cpu_s
    yield "node_memory_working_set_bytes", {}, machine.working_set
    yield "node_swap_usage_bytes", {}, machine.swap_used
    for pod in node_stats.pods:
        object_labels = _pod_labels(pod)
        for usage in _containers(pod.usages):
            labels = {"container": usage.name, **object_labels}
            started = pod.report.container(usage.name)
            if started is not None:
                yield "container_start_time_seconds", labels, started.started_at
            yield from _cpu_and_memory("container", labels, usage)
        yield from _cpu_and_memory("pod", object_labels, total(pod.usages))
    yield "resource_scrape_error", {}, 0


def _cpu_and_memory(prefix: str, labels: Mapping[str, str], usage: ContainerUsage) -> Iterator[Sample]:
    if usage.cpu_s is not None:
        yield f"{prefix}_cpu_usage_seconds_total", labels, usage.cpu_s
    yield f"{prefix}_memory_working_set_bytes", labels, usage.memory_bytes


def _cadvisor(node_stats: NodeStats) -> Iterator[Sample]:
    machine = node_stats.machine
    yield "machine_cpu_cores", {}, machine.cores
    yield "machine_memory_bytes", {}, machine.memory
    root = {"container": "", "id": "/", "image": "", "name": "", "namespace": "", "pod": ""}
    whole = ContainerUsage(
        "", machine.cpu_cores, machine.working_set, machine.cpu_s, machine.rss, swap_bytes=machine.swap_used
    )
    yield from _sample_container(root, whole, cpu="total")
    yield from _sample_interfaces(root, machine.interfaces)
    for pod in node_stats.pods:
        yield from _sample_pod(pod)


def _sample_pod(pod: PodStats) -> Iterator[Sample]:
    object_labels, uid = _pod_labels(pod), pod.pod.metadata.uid
    for usage in _containers(pod.usages):
        report = pod.report.container(usage.name)
        id = report.id.partition("://")[2] if report is not None else ""
        labels = {
            "container": usage.name,
            "id": f"/kubepods/pod{uid}/{id}",
            "image": report.image if report is not None else "",
            "name": id,
            **object_labels,
        }
        yield from _sample_container(labels, usage, cpu="total")
    whole = total(pod.usages)
    labels = {"container": "", "id": f"/kubepods/pod{uid}", "image": "", "name": "", **object_labels}
    yield from _sample_container(labels, whole, cpu="total")
    yield from _sample_interfaces(labels, interfaces_of(whole))


def _sample_interfaces(labels: Mapping[str, str], interfaces: Sequence[InterfaceCounters]) -> Iterator[Sample]:
    for interface in interfaces:
        interface_labels = {**labels, "interface": interface.name}
        yield "container_network_receive_bytes_total", interface_labels, interface.received
        yield "container_network_receive_packets_total", interface_labels, interface.received_packets
        yield "container_network_receive_errors_total", interface_labels, interface.receive_errors
        yield "container_network_receive_packets_dropped_total", interface_labels, interface.receive_dropped
        yield "container_network_transmit_bytes_total", interface_labels, interface.sent
        yield "container_network_transmit_packets_total", interface_labels, interface.sent_packets
        yield "container_network_transmit_errors_total", interface_labels, interface.send_errors
        yield "container_network_transmit_packets_dropped_total", interface_labels, interface.send_dropped


def _sample_container(labels: Mapping[str, str], usage: ContainerUsage, *, cpu: str) -> Iterator[Sample]:
    more = {
        "container_memory_rss": usage.memory_rss_bytes,
        "container_memory_cache": usage.cache_bytes,
        "container_memory_swap": usage.swap_bytes,
        "container_fs_usage_bytes": usage.disk_bytes,
        "container_processes": usage.processes,
    }
    if usage.cpu_s is not None:
        yield "container_cpu_usage_seconds_total", {**labels, "cpu": cpu}, usage.cpu_s
    yield "container_memory_usage_bytes", labels, usage.memory_bytes
    yield "container_memory_working_set_bytes", labels, usage.memory_bytes
    for name, value in more.items():
        if value is not None:
            yield name, labels, value
    if (throttling := usage.throttling) is not None:
        yield "container_cpu_cfs_periods_total", labels, throttling.periods
        yield "container_cpu_cfs_throttled_periods_total", labels, throttling.throttled_periods
        yield "container_cpu_cfs_throttled_seconds_total", labels, throttling.throttled_s
    for disk in usage.disks:
        device_labels = {**labels, "device": disk.device}
        yield "container_fs_reads_total", device_labels, disk.reads
        yield "container_fs_writes_total", device_labels, disk.writes
        yield "container_fs_reads_bytes_total", device_labels, disk.read_bytes
        yield "container_fs_writes_bytes_total", device_labels, disk.written_bytes


def _containers(usages: Sequence[ContainerUsage]) -> Iterator[ContainerUsage]:
    return (usage for usage in usages if usage.name)


def _pod_labels(pod: PodStats) -> dict[str, str]:
    return {"namespace": pod.pod.metadata.namespace, "pod": pod.pod.metadata.name}


def format_samples(samples: Iterator[Sample], time: float) -> str:
    """Return the samples in Prometheus text format with their timestamp."""
    families: dict[str, list[str]] = {}
    for name, labels, value in samples:
        pairs = ",".join(f'{key}="{escape_label(text)}"' for key, text in sorted(labels.items()))
        line = f"{name}{{{pairs}}} {value!r} {int(time * 1000)}" if pairs else f"{name} {value!r} {int(time * 1000)}"
        families.setdefault(name, []).append(line)
    lines: list[str] = []
    for name in sorted(families):
        kind, help = _HELP[name]
        lines += (f"# HELP {name} {help}", f"# TYPE {name} {kind}", *families[name])
    return "\n".join(lines) + "\n"


_FIELDS = (
    ("capacity_bytes", "Capacity in bytes of the volume", "capacity_bytes"),
    ("available_bytes", "Number of available bytes in the volume", "available_bytes"),
    ("used_bytes", "Number of used bytes in the volume", "used_bytes"),
    ("inodes", "Maximum number of inodes in the volume", "inodes"),
    ("inodes_free", "Number of free inodes in the volume", "free_inodes"),
    ("inodes_used", "Number of used inodes in the volume", "used_inodes"),
)


def export_volumes(metrics: Metrics, latest_stats: Callable[[], NodeStats | None]) -> None:
    """Register the metrics of volumes. `latest_stats` returns the latest usage. A claim that several pods use is
    reported once.
    """
    for name, help, field in _FIELDS:
        metrics.function(
            f"kubelet_volume_stats_{name}",
            help,
            partial(_values, latest_stats, field),
            ("namespace", "persistentvolumeclaim"),
        )


def _values(latest_stats: Callable[[], NodeStats | None], field: str) -> list[tuple[tuple[str, ...], float]]:
    latest, values = latest_stats(), dict[tuple[str, ...], float]()
    for pod in latest.pods if latest is not None else ():
        for volume in pod.volumes:
            if volume.claim:
                values.setdefault((pod.pod.metadata.namespace, volume.claim), getattr(volume, field))
    return list(values.items())
