"""Resource usage in the format of /stats/summary, which metrics-server and other monitoring agents read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sampan.api.values import times
from sampan.kubelet.stats.collector import FileSystem, MachineStats, NodeStats, PodStats
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.runtimes.contract import ContainerUsage, InterfaceCounters

_NANO = 1_000_000_000


def summary(node_stats: NodeStats, *, only_cpu_and_memory: bool = False) -> dict[str, Any]:
    return {
        "node": _node(node_stats.node, node_stats.machine, only_cpu_and_memory),
        "pods": [_pod(pod, node_stats.machine, only_cpu_and_memory) for pod in node_stats.pods],
    }


def _node(name: str, machine: MachineStats, is_short: bool) -> dict[str, Any]:
    time = times.format_time(machine.at)
    stats: dict[str, Any] = {"nodeName": name, "startTime": times.format_time(machine.booted_at)}
    stats["cpu"] = _cpu(time, machine.cpu_cores, machine.cpu_s)
    stats["memory"] = {
        "time": time,
        "availableBytes": machine.memory_available,
        "usageBytes": machine.memory_used,
        "workingSetBytes": machine.working_set,
        "rssBytes": machine.rss,
        "pageFaults": machine.page_faults,
        "majorPageFaults": machine.major_page_faults,
    }
    if is_short:
        return stats
    stats["network"] = _network(time, machine.interfaces)
    stats["fs"] = _file_system(time, machine.root)
    stats["runtime"] = {key: _file_system(time, machine.root) for key in ("imageFs", "containerFs")}
    stats["rlimit"] = {"time": time, "maxpid": machine.max_processes, "curproc": machine.processes}
    stats["swap"] = {
        "time": time,
        "swapAvailableBytes": machine.swap - machine.swap_used,
        "swapUsageBytes": machine.swap_used,
    }
    return stats


def _pod(pod_stats: PodStats, machine: MachineStats, is_short: bool) -> dict[str, Any]:
    meta, time = pod_stats.pod.metadata, times.format_time(pod_stats.at)
    started = {report.name: report.started_at for report in pod_stats.report.containers}
    containers = [usage for usage in pod_stats.usages if usage.name]
    whole = total(pod_stats.usages)
    stats: dict[str, Any] = {
        "podRef": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
        "startTime": pod_stats.pod.status.startTime or meta.creationTimestamp,
        "containers": [
            _container(usage, time, started.get(usage.name, 0.0), machine, is_short) for usage in containers
        ],
        "cpu": _cpu(time, whole.cpu_cores, whole.cpu_s),
        "memory": _memory(time, whole),
    }
    if is_short:
        return stats
    if whole.received_bytes is not None:
        stats["network"] = _network(time, interfaces_of(whole))
    disk = [usage.disk_bytes or 0 for usage in containers] + [usage.log_bytes or 0 for usage in containers]
    stats["ephemeral-storage"] = _file_system(time, machine.root) | {"usedBytes": sum(disk)}
    if pod_stats.volumes:
        stats["volume"] = [_volume(time, meta.namespace, volume) for volume in pod_stats.volumes]
    if whole.processes is not None:
        stats["process_stats"] = {"process_count": whole.processes}
    return stats


def _volume(time: str, namespace: str, volume: VolumeUsage) -> dict[str, Any]:
    claim = {"pvcRef": {"name": volume.claim, "namespace": namespace}} if volume.claim else {}
    return {
        "time": time,
        "availableBytes": volume.available_bytes,
        "capacityBytes": volume.capacity_bytes,
        "usedBytes": volume.used_bytes,
        "inodesFree": volume.free_inodes,
        "inodes": volume.inodes,
        "inodesUsed": volume.used_inodes,
        "name": volume.name,
        **claim,
    }


def _container(
    usage: ContainerUsage, time: str, started_at: float, machine: MachineStats, is_short: bool
) -> dict[str, Any]:
    stats: dict[str, Any] = {
        "name": usage.name,
        "startTime": times.format_time(started_at),
        "cpu": _cpu(time, usage.cpu_cores, usage.cpu_s),
        "memory": _memory(time, usage),
    }
    if not is_short:
        for name, used in (("rootfs", usage.disk_bytes), ("logs", usage.log_bytes)):
            if used is not None:
                stats[name] = _file_system(time, machine.root) | {"usedBytes": used}
    return stats


def total(usages: Sequence[ContainerUsage]) -> ContainerUsage:
    """Return the usage of the pod: that of its sandbox if the runtime reports it, or else the sum of its containers."""
    whole = next((usage for usage in usages if not usage.name), None)
    if whole is not None:
        return whole
    return ContainerUsage(
        name="",
        cpu_cores=sum(usage.cpu_cores for usage in usages),
        memory_bytes=sum(usage.memory_bytes for usage in usages),
        cpu_s=_sum(usage.cpu_s for usage in usages),
        memory_rss_bytes=_sum_whole(usage.memory_rss_bytes for usage in usages),
        page_faults=_sum_whole(usage.page_faults for usage in usages),
        major_page_faults=_sum_whole(usage.major_page_faults for usage in usages),
        processes=_sum_whole(usage.processes for usage in usages),
    )


def interfaces_of(whole: ContainerUsage) -> Sequence[InterfaceCounters]:
    """Return the network interfaces of a pod, from the usage of the whole pod; none if its traffic is unknown."""
    if whole.interfaces or whole.received_bytes is None:
        return whole.interfaces
    return [InterfaceCounters(name="eth0", received=whole.received_bytes, sent=whole.sent_bytes or 0)]


def _sum(values: Iterable[float | None]) -> float | None:
    amounts = [value for value in values if value is not None]
    return sum(amounts) if amounts else None


def _sum_whole(values: Iterable[int | None]) -> int | None:
    amount = _sum(values)
    return int(amount) if amount is not None else None


def _cpu(time: str, cores: float, seconds: float | None) -> dict[str, Any]:
    stats: dict[str, Any] = {"time": time, "usageNanoCores": int(cores * _NANO)}
    if seconds is not None:
        stats["usageCoreNanoSeconds"] = int(seconds * _NANO)
    return stats


def _memory(time: str, usage: ContainerUsage) -> dict[str, Any]:
    stats: dict[str, Any] = {"time": time, "usageBytes": usage.memory_bytes, "workingSetBytes": usage.memory_bytes}
    more = {
        "rssBytes": usage.memory_rss_bytes,
        "pageFaults": usage.page_faults,
        "majorPageFaults": usage.major_page_faults,
    }
    return stats | {key: value for key, value in more.items() if value is not None}


def _network(time: str, all_interfaces: Sequence[InterfaceCounters]) -> dict[str, Any]:
    interfaces = [_interface(interface) for interface in all_interfaces]
    busiest = max(interfaces, key=lambda candidate: candidate["rxBytes"], default={"name": ""})
    return {"time": time, **busiest, **({"interfaces": interfaces} if interfaces else {})}


def _interface(interface: InterfaceCounters) -> Mapping[str, Any]:
    return {
        "name": interface.name,
        "rxBytes": interface.received,
        "rxErrors": interface.receive_errors,
        "txBytes": interface.sent,
        "txErrors": interface.send_errors,
    }


def _file_system(time: str, file_system: FileSystem) -> dict[str, Any]:
    return {
        "time": time,
        "availableBytes": file_system.available,
        "capacityBytes": file_system.capacity,
        "usedBytes": file_system.used,
        "inodesFree": file_system.inodes_free,
        "inodes": file_system.inodes,
        "inodesUsed": file_system.inodes - file_system.inodes_free,
    }
