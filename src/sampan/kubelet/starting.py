"""Starts a pod's sandbox and containers, with back-off, image pulls and events."""

from sampan.api import durations, gotext
from sampan.api.semantics.pods import AnyContainer, as_container
from sampan.api.types.core_v1 import Container, ContainerStatus, EphemeralContainer
from sampan.kubelet.backoff import FIRST_S, MOST_S, BackOff
from sampan.kubelet.pod_actions import PodActions, ephemeral_to_start
from sampan.kubelet.pod_events import PodEvents, full_name
from sampan.kubelet.provision import AlreadyTold
from sampan.kubelet.records import PodRecord
from sampan.machinery.clock import Clock
from sampan.machinery.events import WARNING
from sampan.runtimes import contract
from sampan.runtimes.contract import ContainerReport, PodReport, RuntimeFailure

CONFIG_ERROR, RUN_ERROR = "CreateContainerConfigError", "RunContainerError"
CRASH_LOOP, PULL_BACK_OFF = "CrashLoopBackOff", "ImagePullBackOff"
SANDBOX_FAILED = "FailedCreatePodSandBox"
_SANDBOX_RETRY_S = 10.0
_PREPARE_RETRY_S = 2.0
_CONFIG_RETRY_S = 2.0
"""Retry interval after configuration errors, which may be resolved soon."""
_PULL_LOOK_S = 10.0
"""Maximum time until the pod is synced again after a failed pull, so that its status shows the back-off in time."""


class Starter:
    def __init__(self, *, clock: Clock, events: PodEvents, longest_pause_s: float) -> None:
        self._clock, self._events, self._longest_pause_s = clock, events, longest_pause_s

    async def carry_out(self, record: PodRecord, actions: PodActions, report: PodReport) -> float | None:
        """Carry out the actions. Return the seconds until failed ones should be retried, or None."""
        record.waiting = None
        if (actions.needs_sandbox or actions.start) and not await self._prepared(record):
            return _PREPARE_RETRY_S
        if actions.needs_sandbox and not await self._sandbox(record):
            return _SANDBOX_RETRY_S
        again = [
            *[
                await self._container(record, container, report.container(container.name))
                for container in actions.start
            ],
            *[await self._ephemeral(record, container) for container in ephemeral_to_start(record.pod, report)],
        ]
        return min((pause_s for pause_s in again if pause_s is not None), default=None)

    async def _prepared(self, record: PodRecord) -> bool:
        provision = record.kubelet.provision
        if provision is None:
            return True
        try:
            await provision.prepare(record)
        except AlreadyTold:
            return False
        except RuntimeFailure as failure:
            self._events.pod(record.kubelet, record.pod, WARNING, failure.reason, failure.message)
            return False
        return True

    async def _sandbox(self, record: PodRecord) -> bool:
        provision = record.kubelet.provision
        try:
            if provision is not None:
                await provision.run_sandbox(record)
            else:
                await record.kubelet.runtime.run_sandbox(record.pod, None)
        except RuntimeFailure as failure:
            text = f"Failed to create pod sandbox: {failure.message}"
            self._events.pod(record.kubelet, record.pod, WARNING, SANDBOX_FAILED, text)
            return False
        return True

    async def _container(self, record: PodRecord, container: Container, last: ContainerReport | None) -> float | None:
        if last is not None and last.state == contract.EXITED:
            back_off, now = _back_off(record, container.name, self._longest_pause_s), self._clock.monotonic()
            failed_at = back_off.failed_at(last.finished_at, now=self._clock.now(), monotonic=now)
            if (left_s := back_off.left_s(failed_at, now)) > 0:
                return self._crash_loop(record, container, back_off, left_s)
            back_off.lengthen(failed_at, now)
        return await self._pull_and_start(record, container)

    def _crash_loop(self, record: PodRecord, container: Container, back_off: BackOff, left_s: float) -> float:
        pause = durations.format_duration(int(back_off.pause_s * 1e9))
        text = f"back-off {pause} restarting failed container={container.name} pod={full_name(record.pod)}"
        _wait(record, container.name, CRASH_LOOP, text)
        self._events.back_off(record.kubelet, record.pod, container)
        return left_s

    async def _pull_and_start(self, record: PodRecord, container: AnyContainer) -> float | None:
        kubelet, now = record.kubelet, self._clock.monotonic()
        attempt = next_attempt(record, container.name)
        try:
            if kubelet.provision is not None:
                await kubelet.provision.start(record, container, attempt)
            else:
                await self._simulate(record, as_container(container), attempt)
        except RuntimeFailure as failure:
            _wait(record, container.name, failure.reason, failure.message)
            if failure.reason == CONFIG_ERROR:
                return _CONFIG_RETRY_S
            back_off = pull_back_off(record, container)
            return min(back_off.left_s(back_off.since, now) or FIRST_S, _PULL_LOOK_S)
        return None

    async def _simulate(self, record: PodRecord, container: Container, attempt: int) -> None:
        kubelet, pod = record.kubelet, record.pod
        await self._pull(record, container)
        await kubelet.runtime.start_container(pod, container, attempt, None)
        self._events.created(kubelet, pod, container)
        self._events.started(kubelet, pod, container)

    async def _pull(self, record: PodRecord, container: Container) -> None:
        """Pull the image. Raise RuntimeFailure if that fails or the pull is backing off."""
        kubelet, pod, now = record.kubelet, record.pod, self._clock.monotonic()
        back_off = pull_back_off(record, container)
        if back_off.left_s(back_off.since, now) > 0:
            self._events.pull_back_off(kubelet, pod, container)
            text = f"Back-off pulling image {gotext.quote(container.image)}: {back_off.why}"
            raise RuntimeFailure(PULL_BACK_OFF, text)
        try:
            await kubelet.runtime.pull_image(pod, container, None)
        except RuntimeFailure as failure:
            back_off.lengthen(now, now)
            back_off.why = f"{failure.reason}: {failure.message}"
            self._events.pulling(kubelet, pod, container)
            self._events.pull_failed(kubelet, pod, container, failure.message)
            self._events.failed(kubelet, pod, container, failure.reason)
            raise
        self._events.pulled(kubelet, pod, container)

    async def _ephemeral(self, record: PodRecord, container: EphemeralContainer) -> float | None:
        return await self._pull_and_start(record, container)


def next_attempt(record: PodRecord, name: str) -> int:
    """Return the number of known earlier starts of the container."""
    report = record.kubelet.report(record.pod)
    last = report.container(name) or report.previous(name)
    if last is not None:
        return last.attempt + 1
    statuses = (*record.status.containerStatuses, *record.status.initContainerStatuses)
    return next((_next(status) for status in statuses if status.name == name), 0)


def _next(status: ContainerStatus) -> int:
    """Return the next attempt from the last status of a container that the runtime has lost."""
    has_run = status.state.waiting is None or status.lastState.terminated is not None
    return status.restartCount + 1 if has_run else status.restartCount


def _wait(record: PodRecord, name: str, reason: str, message: str) -> None:
    record.waiting = (record.waiting or {}) | {name: (reason, message)}


def pull_back_off(record: PodRecord, container: AnyContainer) -> BackOff:
    return _back_off(record, f"image {container.image}")


def _back_off(record: PodRecord, key: str, most_s: float = MOST_S) -> BackOff:
    if record.back_offs is None:
        record.back_offs = {}
    return record.back_offs.setdefault(key, BackOff(most_s=most_s))
