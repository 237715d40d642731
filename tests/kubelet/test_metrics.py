"""Metrics of the kubelet: pods, operations of the runtime, volumes and cgroups."""

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.host.clock import VirtualClock
from sampan.kubelet.metrics import KubeletMetrics, MeasuredRuntime
from sampan.runtimes.contract import RuntimeFailure
from sampan.runtimes.hollow.runtime import HollowRuntime, HollowWorld


def _samples(metrics: KubeletMetrics) -> dict[str, float]:
    lines = [line for line in metrics.registry.text().splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


async def test_operations_of_the_runtime_are_counted_with_their_errors() -> None:
    metrics = KubeletMetrics()
    world = HollowWorld(clock=VirtualClock())
    runtime = MeasuredRuntime(HollowRuntime(world=world), metrics)
    pod = Pod(metadata=ObjectMeta(name="p", uid="u"))
    await runtime.run_sandbox(pod, None)

    async def fail(pod: Pod) -> None:
        raise RuntimeFailure("Error", "broken")

    with pytest.raises(RuntimeFailure):
        await metrics.measure_operation("stop_podsandbox", fail)(pod)
    samples = _samples(metrics)
    assert samples['kubelet_runtime_operations_total{operation_type="run_podsandbox"}'] == 1
    assert samples['kubelet_runtime_operations_duration_seconds_count{operation_type="run_podsandbox"}'] == 1
    assert samples['kubelet_runtime_operations_errors_total{operation_type="stop_podsandbox"}'] == 1
    assert 'kubelet_runtime_operations_errors_total{operation_type="run_podsandbox"}' not in samples


def test_failed_volume_operations_have_their_own_status() -> None:
    metrics = KubeletMetrics()
    with metrics.change_volume("kubernetes.io/empty-dir", "volume_mount"):
        pass
    with pytest.raises(OSError, match="full"), metrics.change_volume("kubernetes.io/empty-dir", "volume_unmount"):
        raise OSError("full")
    counts = {name: value for name, value in _samples(metrics).items() if "_count{" in name and "storage" in name}
    labels = 'volume_plugin="kubernetes.io/empty-dir",operation_name'
    start = "storage_operation_duration_seconds_count"
    assert counts == {
        f'{start}{{{labels}="volume_mount",status="success",migrated="false"}}': 1,
        f'{start}{{{labels}="volume_unmount",status="fail-unknown",migrated="false"}}': 1,
    }


def test_relists_evictions_and_starts_are_recorded() -> None:
    metrics = KubeletMetrics()
    metrics.record_relist(duration_s=0.02, interval_s=None, now=100.0)
    metrics.record_relist(duration_s=0.02, interval_s=60.0, now=160.0)
    metrics.record_eviction("memory.available")
    metrics.record_pod_start(2.5)
    samples = _samples(metrics)
    assert samples["kubelet_pleg_relist_duration_seconds_count"] == 2
    assert samples["kubelet_pleg_relist_interval_seconds_count"] == 1
    assert samples["kubelet_pleg_last_seen_seconds"] == 160
    assert samples['kubelet_evictions{eviction_signal="memory.available"}'] == 1
    assert samples['kubelet_pod_start_duration_seconds_bucket{le="3"}'] == 1
