"""Starts a pod's sandbox and containers, with backoff and events."""

from __future__ import annotations

from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import Container, ContainerStatus
from sampan.api.values import durations
from sampan.host.clock import Clock
from sampan.host.time_slice import TimeSlice
from sampan.kubelet.pod_actions import PodActions, ephemeral_to_start
from sampan.kubelet.pod_events import PodEvents, full_name
from sampan.kubelet.pod_lifecycle import PodLifecycle, ReportedFailure
from sampan.kubelet.records import FIRST_S, ContainerBackoff, PodRecord
from sampan.machinery.events import WARNING
from sampan.runtimes import contract
from sampan.runtimes.contract import PodReport, RuntimeFailure

CONFIG_ERROR, RUN_ERROR = "CreateContainerConfigError", "RunContainerError"
CRASH_LOOP, PULL_BACK_OFF = "CrashLoopBackOff", "ImagePullBackOff"
SANDBOX_FAILED = "FailedCreatePodSandBox"
_SANDBOX_RETRY_S = 10.0
_PREPARE_RETRY_S = 2.0
_CONFIG_RETRY_S = 2.0
"""Retry interval after configuration errors, which may be resolved soon."""
_PULL_LOOK_S = 10.0
"""Maximum time until the pod is synced again after a failed pull, so that its status shows the backoff in time."""


class ContainerStarter:
    def __init__(self, *, lifecycle: PodLifecycle, clock: Clock, events: PodEvents, longest_pause_s: float) -> None:
        self._lifecycle, self._clock, self._events = lifecycle, clock, events
        self._longest_pause_s = longest_pause_s

    async def carry_out(self, record: PodRecord, actions: PodActions, report: PodReport) -> float | None:
        """Carry out the actions. Return the seconds until failed actions should be retried, or None if none failed."""
        record.progress.waiting = None
        if (actions.needs_sandbox or actions.start) and not await self._prepare(record):
            return _PREPARE_RETRY_S
        if actions.needs_sandbox and not await self._run_sandbox(record):
            return _SANDBOX_RETRY_S
        current = self._lifecycle.report(record) if actions.needs_sandbox else report
        pauses = [
            await self._start_after_back_off(record, container, report, next_attempt(record, current, container.name))
            async for container in TimeSlice().iterate(actions.start)
        ]
        pauses += [
            await self._start(record, container, next_attempt(record, current, container.name))
            async for container in TimeSlice().iterate(ephemeral_to_start(record.pod, report))
        ]
        return min((pause_s for pause_s in pauses if pause_s is not None), default=None)

    async def _prepare(self, record: PodRecord) -> bool:
        """Prepare the pod. Return whether that succeeded; a failure produces an event."""
        try:
            await self._lifecycle.prepare(record)
        except ReportedFailure:
            return False
        except RuntimeFailure as failure:
            self._events.record_pod_event(record.node, record.pod, WARNING, failure.reason, failure.message)
            return False
        return True

    async def _run_sandbox(self, record: PodRecord) -> bool:
        """Create the sandbox. Return whether that succeeded; a failure produces an event."""
        try:
            await self._lifecycle.run_sandbox(record)
        except RuntimeFailure as failure:
            text = f"Failed to create pod sandbox: {failure.message}"
            self._events.record_pod_event(record.node, record.pod, WARNING, SANDBOX_FAILED, text)
            return False
        return True

    async def _start_after_back_off(
        self, record: PodRecord, container: Container, report: PodReport, attempt: int
    ) -> float | None:
        last = report.container(container.name)
        if last is not None and last.state == contract.EXITED:
            back_off = record.progress.back_off(container.name, self._longest_pause_s)
            now = self._clock.monotonic()
            failed_at = back_off.to_monotonic(last.finished_at, now=self._clock.now(), monotonic=now)
            if (left_s := back_off.remaining_s(failed_at, now)) > 0:
                return self._crash_loop(record, container, back_off, left_s)
            back_off.lengthen(failed_at, now)
        return await self._start(record, container, attempt)

    def _crash_loop(self, record: PodRecord, container: Container, back_off: ContainerBackoff, left_s: float) -> float:
        pause = durations.format_duration(int(back_off.delay_s * 1e9))
        text = f"back-off {pause} restarting failed container={container.name} pod={full_name(record.pod)}"
        record.progress.wait(container.name, CRASH_LOOP, text)
        self._events.record_back_off(record.node, record.pod, container)
        return left_s

    async def _start(self, record: PodRecord, container: AnyContainer, attempt: int) -> float | None:
        now = self._clock.monotonic()
        try:
            await self._lifecycle.start_container(record, container, attempt)
        except RuntimeFailure as failure:
            record.progress.wait(container.name, failure.reason, failure.message)
            if failure.reason == CONFIG_ERROR:
                return _CONFIG_RETRY_S
            back_off = record.progress.pull_back_off(container.image)
            return min(back_off.remaining_s(back_off.since, now) or FIRST_S, _PULL_LOOK_S)
        return None


def next_attempt(record: PodRecord, report: PodReport, name: str) -> int:
    """Return the number of known earlier starts of the container."""
    last = report.container(name) or report.previous(name)
    if last is not None:
        return last.attempt + 1
    statuses = (*record.status.containerStatuses, *record.status.initContainerStatuses)
    return next((_attempt_after(status) for status in statuses if status.name == name), 0)


def _attempt_after(status: ContainerStatus) -> int:
    """Return the number of the next attempt to start a container that the runtime has lost, from its last status."""
    has_run = status.state.waiting is None or status.lastState.terminated is not None
    return status.restartCount + 1 if has_run else status.restartCount
