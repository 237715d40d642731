"""Usage of a node and its pods as summary, Prometheus metrics and cAdvisor documents."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.kubelet.stats import cadvisor, metrics_text
from sampan.kubelet.stats.collector import MachineReader, MachineStats, NodeStats, PodStats
from sampan.kubelet.stats.metrics_text import export_volumes
from sampan.kubelet.stats.summary import summary, total
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.machinery.telemetry.metrics import Metrics
from sampan.runtimes.contract import (
    RUNNING,
    ContainerReport,
    ContainerUsage,
    CpuThrottling,
    DiskCounters,
    InterfaceCounters,
    PodReport,
)

_POD = Pod(metadata=ObjectMeta(name='p"1', namespace="ns", uid="u"))
_REPORT = PodReport(containers=[ContainerReport("c", "x://id", RUNNING, 0, "image", "", started_at=5.0)])


def _node_stats(*usages: ContainerUsage) -> NodeStats:
    machine = MachineStats(at=10.0, cores=2, cpu_cores=0.5, cpu_s=100.0, memory=1 << 30, working_set=1 << 20)
    return NodeStats(node="n", machine=machine, pods=[PodStats(pod=_POD, report=_REPORT, usages=usages, at=10.0)])


def test_pod_usage_is_that_of_its_sandbox_or_the_sum_of_its_containers() -> None:
    first, second = (
        ContainerUsage("a", 0.1, 10, cpu_s=1.0, processes=1),
        ContainerUsage("b", 0.2, 20, cpu_s=None, processes=2),
    )
    usage = total([first, second])
    assert (round(usage.cpu_cores, 3), usage.memory_bytes, usage.cpu_s, usage.processes) == (0.3, 30, 1.0, 3)
    assert total([ContainerUsage("", 1.0, 99), first]).memory_bytes == 99


def test_summary() -> None:
    document = summary(_node_stats(ContainerUsage("c", 0.25, 2048, cpu_s=3.0, disk_bytes=7, log_bytes=5)))
    assert document["node"]["cpu"]["usageNanoCores"] == 500_000_000
    (pod,) = document["pods"]
    assert pod["containers"][0]["memory"]["workingSetBytes"] == 2048
    assert pod["containers"][0]["rootfs"]["usedBytes"] == 7
    assert pod["ephemeral-storage"]["usedBytes"] == 12
    assert pod["cpu"]["usageCoreNanoSeconds"] == 3_000_000_000
    short = summary(_node_stats(ContainerUsage("c", 0.25, 2048)), only_cpu_and_memory=True)
    assert set(short["node"]) == {"nodeName", "startTime", "cpu", "memory"}
    assert set(short["pods"][0]) == {"podRef", "startTime", "containers", "cpu", "memory"}


def test_volume_usage_in_summary_and_metrics() -> None:
    """Metrics of a claim's volume have the name of the claim, and appear once for all pods that use it."""
    sizes = {"used_bytes": 1, "capacity_bytes": 2, "available_bytes": 3, "used_inodes": 4, "inodes": 5}
    volumes = [VolumeUsage(name="v", claim=claim, free_inodes=6, **sizes) for claim in ("", "c")]
    pods = [PodStats(pod=_POD, report=_REPORT, usages=[], at=10.0, volumes=volumes)] * 2
    stats = replace(_node_stats(), pods=pods)
    volume_stats = summary(stats)["pods"][0]["volume"]
    assert (volume_stats[0]["name"], volume_stats[0]["usedBytes"], volume_stats[0]["inodesFree"]) == ("v", 1, 6)
    assert ("pvcRef" in volume_stats[0], volume_stats[1]["pvcRef"]) == (False, {"name": "c", "namespace": "ns"})
    metrics = Metrics()
    export_volumes(metrics, lambda: stats)
    lines = [line for line in metrics.text().splitlines() if line.startswith("kubelet_volume_stats_capacity")]
    assert lines == ['kubelet_volume_stats_capacity_bytes{namespace="ns",persistentvolumeclaim="c"} 2']


def test_resource_and_cadvisor_metrics_text() -> None:
    stats = _node_stats(ContainerUsage("c", 0.25, 2048, cpu_s=3.0, received_bytes=1))
    text = metrics_text.resource_text(stats)
    assert 'container_cpu_usage_seconds_total{container="c",namespace="ns",pod="p\\"1"} 3.0 10000\n' in text
    assert 'container_start_time_seconds{container="c",namespace="ns",pod="p\\"1"} 5.0 10000\n' in text
    assert text.count("# TYPE container_cpu_usage_seconds_total counter") == 1
    assert 'id="/kubepods/podu/id",image="image",name="id"' in metrics_text.cadvisor_text(stats)


def test_cadvisor_container_tree() -> None:
    containers = cadvisor.containers(_node_stats(ContainerUsage("c", 0.25, 2048)))
    assert sorted(containers) == ["/", "/kubepods/podu", "/kubepods/podu/id"]
    assert containers["/"]["subcontainers"] == [{"name": "/kubepods/podu"}]
    assert containers["/kubepods/podu"]["subcontainers"] == [{"name": "/kubepods/podu/id"}]


def test_machine_reader(tmp_path: Path) -> None:
    machine = MachineReader(directory=tmp_path)
    now = time.time()
    first = machine.read(now)
    assert first.memory > first.working_set > 0
    assert (first.cores > 0, first.processes > 0, first.root.capacity > 0) == (True, True, True)
    assert first.cpu_cores == pytest.approx(first.cpu_s / (now - first.booted_at)), "the average since the boot"
    assert first.cpu_cores > 0
    assert machine.read(now + 10).cpu_cores >= 0


def test_cadvisor_metrics_of_disks_throttling_memory_and_interfaces() -> None:
    interface = InterfaceCounters(name="eth0", received=5, received_packets=2, receive_dropped=3, sent_packets=4)
    container = ContainerUsage(
        "c",
        0.25,
        2048,
        cache_bytes=7,
        swap_bytes=8,
        throttling=CpuThrottling(periods=10, throttled_periods=4, throttled_s=0.5),
        disks=[DiskCounters(device="/dev/sda", reads=1, writes=2, read_bytes=3, written_bytes=4)],
    )
    whole = ContainerUsage("", 0.25, 2048, received_bytes=5, sent_bytes=0, interfaces=[interface])
    lines = metrics_text.cadvisor_text(_node_stats(whole, container)).splitlines()
    values = {
        line.partition("{")[0]: float(line.split()[-2])
        for line in lines
        if 'container="c"' in line or 'interface="eth0"' in line
    }
    assert values["container_memory_cache"] == 7
    assert values["container_memory_swap"] == 8
    assert values["container_cpu_cfs_periods_total"] == 10
    assert values["container_cpu_cfs_throttled_periods_total"] == 4
    assert values["container_cpu_cfs_throttled_seconds_total"] == 0.5
    assert values["container_fs_reads_total"] == 1
    assert values["container_fs_writes_total"] == 2
    assert values["container_fs_reads_bytes_total"] == 3
    assert values["container_fs_writes_bytes_total"] == 4
    assert values["container_network_receive_packets_total"] == 2
    assert values["container_network_receive_packets_dropped_total"] == 3
    assert values["container_network_transmit_packets_total"] == 4
    assert values["container_network_transmit_packets_dropped_total"] == 0
    assert any(line.startswith("container_fs_reads_total{") and 'device="/dev/sda"' in line for line in lines)
