"""The metrics of a kubelet, under the names of the real one (`pkg/kubelet/metrics`, `pkg/volume/util`).

A fleet of hollow nodes shares one object, which nobody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Literal, ParamSpec, TypeVar

from sampan.machinery.telemetry.metrics import Metrics
from sampan.runtimes.contract import Runtime

_DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_RUNTIME_BUCKETS = tuple(0.005 * 2.5**power for power in range(14))
_START_BUCKETS = (
    *(0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480),
    *(600, 900, 1200, 1800, 2700, 3600),
)
_STORAGE_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600)
STORAGE_LIMIT_SIGNAL = "ephemeralpodfs.limit"
"""The eviction signal of pods that exceed their limit of local storage."""

SyncType = Literal["sync", "kill", "terminate"]
CgroupOperation = Literal["create", "update", "destroy"]
VolumeOperation = Literal["volume_mount", "volume_unmount"]
P = ParamSpec("P")
T = TypeVar("T")


class KubeletMetrics:
    def __init__(self) -> None:
        self.registry = registry = Metrics()
        self._pod_workers = registry.histogram(
            "kubelet_pod_worker_duration_seconds",
            "Duration of the sync of a pod, by type.",
            ("operation_type",),
            _DEFAULT_BUCKETS,
        )
        self._pod_starts = registry.histogram(
            "kubelet_pod_start_duration_seconds",
            "Time from when the kubelet sees a pod for the first time until the pod runs.",
            buckets=_START_BUCKETS,
        ).labels()
        self._runtime_operations = registry.counter(
            "kubelet_runtime_operations_total", "Operations of the container runtime.", ("operation_type",)
        )
        self._runtime_errors = registry.counter(
            "kubelet_runtime_operations_errors_total",
            "Operations of the container runtime that failed.",
            ("operation_type",),
        )
        self._runtime_durations = registry.histogram(
            "kubelet_runtime_operations_duration_seconds",
            "Duration of operations of the container runtime.",
            ("operation_type",),
            _RUNTIME_BUCKETS,
        )
        self._relist_duration = registry.histogram(
            "kubelet_pleg_relist_duration_seconds",
            "Duration of relisting the pods, which finds changes that the runtime has not reported.",
            buckets=_DEFAULT_BUCKETS,
        ).labels()
        self._relist_interval = registry.histogram(
            "kubelet_pleg_relist_interval_seconds", "Time between two relists of pods.", buckets=_DEFAULT_BUCKETS
        ).labels()
        self._relisted_at = registry.gauge(
            "kubelet_pleg_last_seen_seconds", "Time of the last relist of pods, in seconds since the Unix epoch."
        ).labels()
        self._evictions = registry.counter(
            "kubelet_evictions", "Evictions of pods by the node, by signal.", ("eviction_signal",)
        )
        self._cgroup_durations = registry.histogram(
            "kubelet_cgroup_manager_duration_seconds",
            "Duration of operations on the cgroups of pods.",
            ("operation_type",),
            _DEFAULT_BUCKETS,
        )
        self._storage_durations = registry.histogram(
            "storage_operation_duration_seconds",
            "Duration of operations on volumes.",
            ("volume_plugin", "operation_name", "status", "migrated"),
            _STORAGE_BUCKETS,
        )

    @contextmanager
    def sync_pod(self, type: SyncType) -> Iterator[None]:
        """Measure one step of a pod worker."""
        began = perf_counter()
        try:
            yield
        finally:
            self._pod_workers.labels(type).observe(perf_counter() - began)

    def record_pod_start(self, seconds: float) -> None:
        self._pod_starts.observe(seconds)

    def record_relist(self, *, duration_s: float, interval_s: float | None, now: float) -> None:
        """Record a relist of pods that ended at the wall-clock time `now`."""
        self._relist_duration.observe(duration_s)
        if interval_s is not None:
            self._relist_interval.observe(interval_s)
        self._relisted_at.set(now)

    def record_eviction(self, signal: str) -> None:
        self._evictions.labels(signal).inc()

    @contextmanager
    def change_cgroup(self, operation: CgroupOperation) -> Iterator[None]:
        """Measure an operation on the cgroup of a pod."""
        began = perf_counter()
        try:
            yield
        finally:
            self._cgroup_durations.labels(operation).observe(perf_counter() - began)

    @contextmanager
    def change_volume(self, plugin: str, operation: VolumeOperation) -> Iterator[None]:
        """Measure an operation on a volume."""
        began, status = perf_counter(), "fail-unknown"
        try:
            yield
            status = "success"
        finally:
            self._storage_durations.labels(plugin, operation, status, "false").observe(perf_counter() - began)

    def measure_operation(
        self, type: str, operation: Callable[P, Coroutine[Any, Any, T]]
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return an operation of the container runtime that is measured whenever it is called."""
        total, duration = self._runtime_operations, self._runtime_durations

        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            began = perf_counter()
            total.labels(type).inc()
            try:
                return await operation(*args, **kwargs)
            except Exception:
                self._runtime_errors.labels(type).inc()
                raise
            finally:
                duration.labels(type).observe(perf_counter() - began)

        return run


class MeasuredRuntime:
    """A runtime that measures its operations, under the names that they have in CRI."""

    def __init__(self, runtime: Runtime, metrics: KubeletMetrics) -> None:
        self._runtime, measure = runtime, metrics.measure_operation
        self.name = runtime.name
        self.adopt, self.use_pod_cidrs = runtime.adopt, runtime.use_pod_cidrs
        self.list_pod_uids, self.pod_report = runtime.list_pod_uids, runtime.pod_report
        self.pull_progress = runtime.pull_progress
        self.connect, self.log_file, self.log_text = runtime.connect, runtime.log_file, runtime.log_text
        self.status = measure("status", runtime.status)
        self.stats = measure("podsandbox_stats", runtime.stats)
        self.run_sandbox = measure("run_podsandbox", runtime.run_sandbox)
        self.stop_sandbox = measure("stop_podsandbox", runtime.stop_sandbox)
        self.remove_pod = measure("remove_podsandbox", runtime.remove_pod)
        self.image = measure("image_status", runtime.image)
        self.images = measure("list_images", runtime.images)
        self.pull_image = measure("pull_image", runtime.pull_image)
        self.remove_image = measure("remove_image", runtime.remove_image)
        self.start_container = measure("start_container", runtime.start_container)
        self.stop_container = measure("stop_container", runtime.stop_container)
        self.remove_container = measure("remove_container", runtime.remove_container)
        self.update_resources = measure("update_container", runtime.update_resources)
        self.reopen_log = measure("reopen_container_log", runtime.reopen_log)
        self.exec = measure("exec", runtime.exec)
        self.attach = measure("attach", runtime.attach)

    @property
    def version(self) -> str:
        return self._runtime.version
