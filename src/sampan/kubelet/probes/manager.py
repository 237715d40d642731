"""The probe manager: runs the probes of the node's containers when they are due and reports changes to the kubelet."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from sampan.api.feature_gates import FeatureGates
from sampan.api.semantics.pods import init_and_main_containers
from sampan.api.types.core_v1 import Container, Pod, Probe
from sampan.host.activity import Activity
from sampan.host.clock import Clock
from sampan.kubelet.probes.prober import ProbeResult, probe_container
from sampan.machinery.control_loop.workqueue import WorkQueue
from sampan.machinery.telemetry.metrics import Metrics
from sampan.runtimes import contract
from sampan.runtimes.contract import ContainerReport, PodCallback, PodReport, Runtime

log = logging.getLogger(__name__)

_MAX_CONCURRENT = 100
_AFTER_ERROR_S = 10.0
_TOTAL, _LABELS = "prober_probe_total", ("container", "namespace", "pod", "pod_uid", "probe_type", "result")
_RETRIES = 3
"""Number of attempts to perform a probe that cannot be performed."""

Event = Callable[[Pod, Container, str, str], None]
"""A function that records a warning event about a container with a reason and a message."""
Note = Callable[[Pod, str, str, float], None]
"""A function that records a step of a pod with its action, its outcome and its duration in seconds."""


Kind = Literal["Startup", "Liveness", "Readiness"]
KINDS: tuple[Kind, ...] = ("Startup", "Liveness", "Readiness")
_INITIAL: dict[Kind, bool | None] = {"Startup": None, "Liveness": True, "Readiness": False}


class ProbeKey(NamedTuple):
    uid: str
    container: str
    kind: Kind


@dataclass(slots=True)
class _ProbeTarget:
    """A container to probe, with its pod, its report and its address as last seen."""

    pod: Pod
    container: Container
    report: ContainerReport
    address: str


@dataclass(slots=True)
class ProbeTally:
    """The results of one probe for one instance of a container."""

    kind: Kind
    container_id: str = ""
    value: bool | None = None
    """The current result of the probe; None for a startup probe that has neither succeeded nor failed."""
    last: bool | None = None
    run: int = 0
    """Number of consecutive results equal to `last`."""
    is_on_hold: bool = False
    """Whether the probe is not run again for this instance of the container."""

    def start(self, container_id: str) -> None:
        self.container_id, self.value = container_id, _INITIAL[self.kind]
        self.last, self.run, self.is_on_hold = None, 0, False

    def count(self, is_success: bool, probe: Probe) -> bool:
        """Record a result. Return whether the state has changed."""
        self.run = self.run + 1 if self.last is is_success else 1
        self.last = is_success
        threshold = (probe.successThreshold or 1) if is_success else (probe.failureThreshold or 3)
        if self.run < threshold:
            return False
        if self.kind == "Startup" or (self.kind == "Liveness" and not is_success):
            self.is_on_hold, self.run = True, 0
        is_new = self.value is not is_success
        self.value = is_success
        return is_new


class ProbeManager:
    """Runs the probes of the node's containers, while `run()` is active. `apply_results` adds their results to the
    report of a pod.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        clock: Clock,
        on_change: PodCallback,
        event: Event,
        note: Note,
        activity: Activity,
        metrics: Metrics | None = None,
        gates: FeatureGates | None = None,
    ) -> None:
        self._gates = gates or FeatureGates()
        self._runtime, self._clock, self._on_change = runtime, clock, on_change
        self._event, self._note = event, note
        self._counts = (metrics or Metrics()).counter(
            _TOTAL, "Results of container probes, by probe type and result.", _LABELS
        )
        self._counted: dict[str, set[tuple[str, ...]]] = {}
        """Metric labels in use, by pod UID."""
        self._activity = activity
        self._targets: dict[tuple[str, str], _ProbeTarget] = {}
        self._tallies: dict[ProbeKey, ProbeTally] = {}
        self._queue: WorkQueue[ProbeKey] = WorkQueue(clock=clock, activity=activity)

    def apply_results(self, pod: Pod, report: PodReport) -> PodReport:
        """Return the report with `is_started` and `is_ready` according to the probes, and schedule the probes."""
        if not any(_has_probes(container) for container in init_and_main_containers(pod.spec)):
            return report
        address = report.ips[0] if report.ips else pod.status.hostIP
        containers = {container.name: container for container in init_and_main_containers(pod.spec)}
        container_reports = [
            self._report_with_results(pod, containers[container_report.name], container_report, address)
            if container_report.name in containers
            else container_report
            for container_report in report.containers
        ]
        return replace(report, containers=container_reports)

    def failure(self, pod: Pod, name: str) -> Kind | None:
        """Return the kind of the probe whose failure requires killing the container, or None."""
        for kind in KINDS[:2]:
            tally = self._tallies.get(ProbeKey(pod.metadata.uid, name, kind))
            if tally is not None and tally.value is False and tally.is_on_hold:
                return kind
        return None

    def forget(self, uid: str) -> None:
        for key in [key for key in self._tallies if key.uid == uid]:
            del self._tallies[key]
        for target in [target for target in self._targets if target[0] == uid]:
            del self._targets[target]
        for labels in self._counted.pop(uid, ()):
            self._counts.remove(*labels)

    async def run(self) -> None:
        """Run the probes until cancelled."""
        await self._queue.serve(self._work, _MAX_CONCURRENT)

    # -- results -----------------------------------------------------------------------------------------------------

    def _report_with_results(
        self, pod: Pod, container: Container, report: ContainerReport, address: str
    ) -> ContainerReport:
        uid = pod.metadata.uid
        is_running = report.state == contract.RUNNING
        is_started = is_running and self._has_succeeded(uid, container, "Startup", report.id)
        is_ready = is_started and self._has_succeeded(uid, container, "Readiness", report.id)
        judged = replace(report, is_started=is_started, is_ready=is_ready)
        self._targets[uid, container.name] = _ProbeTarget(pod, container, judged, address)
        if is_running:
            self._schedule(uid, container, report)
        return judged

    def _has_succeeded(self, uid: str, container: Container, kind: Kind, id: str) -> bool:
        return probe_of(container, kind) is None or self._tally(ProbeKey(uid, container.name, kind), id).value is True

    def _tally(self, key: ProbeKey, container_id: str) -> ProbeTally:
        """Return the tally of this instance of the container."""
        tally = self._tallies.setdefault(key, ProbeTally(key.kind))
        if tally.container_id != container_id:
            tally.start(container_id)
        return tally

    def _schedule(self, uid: str, container: Container, report: ContainerReport) -> None:
        """Schedule the first run of the container's probes."""
        for kind in KINDS:
            probe = probe_of(container, kind)
            if probe is None:
                continue
            key = ProbeKey(uid, container.name, kind)
            tally = self._tally(key, report.id)
            if tally.last is None and not tally.is_on_hold:
                due = report.started_at + (probe.initialDelaySeconds or 0)
                left_s = min(due - self._clock.now(), probe.initialDelaySeconds or 0)
                self._queue.add_after(key, max(left_s, 0))

    # -- running probes ----------------------------------------------------------------------------------------------

    async def _work(self, key: ProbeKey) -> None:
        try:
            with self._activity:
                again_s = await self._probe(key)
        except Exception:
            log.exception("probe of %s failed unexpectedly", key)
            again_s = _AFTER_ERROR_S
        if again_s is not None:
            self._queue.add_after(key, again_s)

    async def _probe(self, key: ProbeKey) -> float | None:
        """Perform the probe. Return the seconds until the next run, or None until the container is restarted."""
        target, tally = self._targets.get((key.uid, key.container)), self._tallies.get(key)
        if target is None or tally is None or tally.is_on_hold or target.report.state != contract.RUNNING:
            return None
        probe = probe_of(target.container, key.kind)
        if probe is None or self._is_over(key, target):
            return None
        if key.kind != "Startup" and not target.report.is_started:
            return float(probe.periodSeconds or 10)
        id, began = tally.container_id, time.perf_counter()
        result = await self._run_with_retries(target, probe)
        took_s = time.perf_counter() - began
        self._record_event(key.kind, target, result)
        self._count(key.kind, target, result)
        if self._tallies.get(key) is not tally or tally.container_id != id:
            return None
        if not result.is_error and tally.count(result.is_success, probe):
            outcome = f"{key.container} {'passed' if result.is_success else 'failed'}"
            self._note(target.pod, f"{key.kind.lower()} probe", outcome, took_s)
            self._on_change(key.uid)
        return None if tally.is_on_hold else float(probe.periodSeconds or 10)

    def _is_over(self, key: ProbeKey, target: _ProbeTarget) -> bool:
        """Whether the probe no longer matters because the pod is being deleted: its containers are not killed by probes
        any more.
        """
        return target.pod.metadata.deletionTimestamp is not None and key.kind != "Readiness"

    async def _run_with_retries(self, target: _ProbeTarget, probe: Probe) -> ProbeResult:
        for attempt in range(1, _RETRIES + 1):
            result = await probe_container(
                self._runtime, target.pod, target.container, probe, target.address, self._gates
            )
            if not result.is_error or attempt == _RETRIES:
                break
        return result

    def _count(self, kind: Kind, target: _ProbeTarget, result: ProbeResult) -> None:
        meta = target.pod.metadata
        label = "unknown" if result.is_error else "successful" if result.is_success else "failed"
        labels = (target.container.name, meta.namespace, meta.name, meta.uid, kind, label)
        self._counted.setdefault(meta.uid, set()).add(labels)
        self._counts.labels(*labels).inc()

    def _record_event(self, kind: Kind, target: _ProbeTarget, result: ProbeResult) -> None:
        if result.is_error:
            text = f"{kind} probe errored and resulted in unknown state: {result.text}"
            self._event(target.pod, target.container, "Unhealthy", text)
        elif not result.is_success:
            self._event(target.pod, target.container, "Unhealthy", f"{kind} probe failed: {result.text}")
        elif result.is_warning:
            self._event(target.pod, target.container, "ProbeWarning", f"{kind} probe warning: {result.text}")


def _has_probes(container: Container) -> bool:
    return any(probe_of(container, kind) is not None for kind in KINDS)


def probe_of(container: Container, kind: Kind) -> Probe | None:
    return {
        "Startup": container.startupProbe,
        "Liveness": container.livenessProbe,
        "Readiness": container.readinessProbe,
    }[kind]
