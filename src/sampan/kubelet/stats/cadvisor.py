"""Resource usage in the format of cAdvisor's API: machine, containers by path, processes."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sampan.api.values import times
from sampan.kubelet.stats.collector import MachineStats, NodeStats
from sampan.kubelet.stats.summary import total
from sampan.runtimes.contract import ContainerUsage

_NANO = 1_000_000_000


def machine_info(machine: MachineStats) -> dict[str, Any]:
    root = {"device": "/", "capacity": machine.root.capacity, "type": "vfs", "inodes": machine.root.inodes}
    return {
        "timestamp": times.format_time(machine.at),
        "num_cores": machine.cores,
        "num_physical_cores": machine.cores,
        "num_sockets": 1,
        "cpu_frequency_khz": 0,
        "memory_capacity": machine.memory,
        "swap_capacity": machine.swap,
        "machine_id": _text("/etc/machine-id"),
        "system_uuid": _text("/sys/class/dmi/id/product_uuid"),
        "boot_id": _text("/proc/sys/kernel/random/boot_id"),
        "filesystems": [root | {"has_inodes": True}],
        "disk_map": {},
        "network_devices": [
            {"name": interface.name, "mac_address": "", "speed": 0, "mtu": 0} for interface in machine.interfaces
        ],
        "cloud_provider": "Unknown",
        "instance_type": "Unknown",
        "instance_id": "None",
    }


def attributes(machine: MachineStats) -> dict[str, Any]:
    """Return the attributes of the v2 API: the machine information with versions."""
    return {"kernel_version": platform.release(), "container_os_version": platform.system(), **machine_info(machine)}


def containers(node_stats: NodeStats) -> dict[str, dict[str, Any]]:
    """Return the usage by path: the machine is /, pods are below /kubepods, containers below their pod."""
    machine = node_stats.machine
    infos = {"/": _info("/", ContainerUsage("", machine.cpu_cores, machine.working_set, machine.cpu_s), machine.at)}
    stats = infos["/"]["stats"][0]
    stats["network"] = {
        "interfaces": [
            {"name": interface.name, "rx_bytes": interface.received, "tx_bytes": interface.sent}
            for interface in machine.interfaces
        ]
    }
    stats["filesystem"] = [
        {"device": "/", "capacity": machine.root.capacity, "usage": machine.root.used, "type": "vfs"}
    ]
    for pod in node_stats.pods:
        path, meta = f"/kubepods/pod{pod.pod.metadata.uid}", pod.pod.metadata
        labels = {"io.kubernetes.pod.name": meta.name, "io.kubernetes.pod.namespace": meta.namespace}
        infos[path] = _info(path, total(pod.usages), pod.at, labels=labels)
        for usage in pod.usages:
            report = pod.report.container(usage.name) if usage.name else None
            if report is not None:
                own = f"{path}/{report.id.partition('://')[2]}"
                named = labels | {"io.kubernetes.container.name": usage.name}
                infos[own] = _info(own, usage, pod.at, labels=named, image=report.image)
    for path, info in infos.items():
        info["subcontainers"] = [{"name": other} for other in infos if _parent(other) == path]
    return infos


def _parent(path: str) -> str:
    if path == "/":
        return ""
    up = path.rpartition("/")[0]
    return "/" if up in ("", "/kubepods") else up


def _info(
    path: str, usage: ContainerUsage, time: float, *, labels: Mapping[str, str] | None = None, image: str = ""
) -> dict[str, Any]:
    seconds = usage.cpu_s or 0.0
    stats: dict[str, Any] = {
        "timestamp": times.format_time(time),
        "cpu": {"usage": {"total": int(seconds * _NANO), "user": 0, "system": 0}},
        "cpu_inst": {"usage": {"total": int(usage.cpu_cores * _NANO)}},
        "memory": {"usage": usage.memory_bytes, "working_set": usage.memory_bytes, "rss": usage.memory_rss_bytes or 0},
        "processes": {"process_count": usage.processes or 0},
    }
    if usage.received_bytes is not None:
        interface = {"name": "eth0", "rx_bytes": usage.received_bytes, "tx_bytes": usage.sent_bytes or 0}
        stats["network"] = {**interface, "interfaces": [interface]}
    if usage.disk_bytes is not None:
        stats["filesystem"] = [{"device": "/", "usage": usage.disk_bytes, "type": "vfs"}]
    spec = {"has_cpu": True, "has_memory": True, "labels": dict(labels or {}), "image": image}
    return {"name": path, "spec": spec, "stats": [stats]}


def processes(proc: Path = Path("/proc")) -> Iterator[dict[str, Any]]:
    """Yield all visible processes of the machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in sorted((entry for entry in os.listdir(proc) if entry.isdecimal()), key=int):
        if (process := _process(proc / name, memory)) is not None:
            yield process


def _process(directory: Path, memory: int) -> dict[str, Any] | None:
    try:
        stat = (directory / "stat").read_text()
        command = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        owner = directory.stat().st_uid
    except OSError:
        return None
    name, _, remainder = stat.partition("(")[2].rpartition(")")
    words = remainder.split()
    ticks = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
    rss = int(words[21]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "user": str(owner),
        "pid": int(directory.name),
        "parent_pid": int(words[1]),
        "status": words[0],
        "running_time": f"{ticks:.2f}",
        "rss": rss,
        "virtual_size": int(words[20]),
        "percent_mem": round(100 * rss / memory, 1) if memory else 0.0,
        "cmd": command or f"[{name}]",
    }


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
