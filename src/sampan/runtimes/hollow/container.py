"""A hollow container: a few timestamps and an exit code, from which its state at any time is computed."""

import hashlib
from dataclasses import dataclass

from sampan.api.types.core_v1 import Container, ContainerStateTerminated, ContainerStatus, Pod
from sampan.api.values import times
from sampan.runtimes.contract import COMPLETED, CREATED, ERROR, EXITED, OOM_KILLED, RUNNING, ContainerReport
from sampan.runtimes.hollow.behavior import FOREVER, ContainerBehavior, ready_span, run_span

NAME = "hollow"
_SIGKILL = 137
_LOST = 255


@dataclass(slots=True)
class HollowContainer:
    attempt: int
    runs_at: float
    ends_at: float
    started_at: float
    """The time at which the container counts as started; `ready_at` is the time at which it counts as ready."""
    ready_at: float
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    previous: "HollowContainer | None" = None

    def next_change(self, now: float) -> float:
        """Return the time of the next change of state, or infinity if there is none."""
        return min(when if when > now else FOREVER for when in (self.runs_at, self.ends_at, self.ready_at))

    def is_over(self, now: float) -> bool:
        return self.ends_at <= now

    def stop(self, now: float, grace_s: float, took_s: float, exit_code: int) -> None:
        """Stop the container: it exits after `took_s`, or is killed after the grace period, but never later than it
        would exit anyway."""
        is_killed = took_s > grace_s
        ends_at = now + min(took_s, grace_s)
        if ends_at >= self.ends_at:
            return
        self.ends_at, self.runs_at = ends_at, min(self.runs_at, now)
        self.exit_code = _SIGKILL if is_killed else exit_code
        self.reason = COMPLETED if self.exit_code == 0 else ERROR
        self.message = ""


def make_container(
    pod: Pod,
    container: Container,
    behavior: ContainerBehavior,
    attempt: int,
    now: float,
    *,
    is_init: bool,
    runs: bool = False,
) -> HollowContainer:
    """Return a container that is started now, or that is running from now on if `runs` is set."""
    seed = f"{pod.metadata.uid}/{container.name}/{attempt}/"
    runs_at = now if runs else now + behavior.pull.pick(seed + "pull") + behavior.start.pick(seed + "start")
    run_s = run_span(behavior, pod, container, is_init=is_init).pick(seed + "run")
    started_s, ready_s = ready_span(container)
    if behavior.ready is not None:
        ready_s = behavior.ready.pick(seed + "ready")
    code = behavior.exit_code(attempt)
    if behavior.reason == OOM_KILLED and code == 0:
        code = _SIGKILL
    return HollowContainer(
        attempt=attempt,
        runs_at=runs_at,
        ends_at=runs_at + run_s,
        started_at=runs_at + started_s,
        ready_at=runs_at + max(ready_s, started_s),
        exit_code=code,
        reason=(behavior.reason or ERROR) if code else COMPLETED,
        message=behavior.message,
    )


def restore_container(status: ContainerStatus, again: HollowContainer, booted_at: float) -> HollowContainer | None:
    """Restore a container from its status, or return None if it has never run. `again` is the container that would
    result from a start at the time in the status. A container that was running before `booted_at` is lost."""
    last = status.lastState.terminated
    if (ended := status.state.terminated) is not None:
        return _make_exited_container(ended, status.restartCount)
    if status.state.running is None:
        return _make_exited_container(last, status.restartCount) if last is not None else None
    again.previous = _make_exited_container(last, status.restartCount - 1) if last is not None else None
    if again.runs_at < booted_at < again.ends_at:
        again.ends_at, again.exit_code, again.reason, again.message = booted_at, _LOST, "Unknown", ""
    return again


def _make_exited_container(terminated: ContainerStateTerminated, attempt: int) -> HollowContainer:
    began = times.parse_time(terminated.startedAt) if terminated.startedAt else 0.0
    ended = times.parse_time(terminated.finishedAt) if terminated.finishedAt else began
    return HollowContainer(
        attempt, began, ended, began, began, terminated.exitCode, terminated.reason, terminated.message
    )


def report(uid: str, name: str, image: str, container: HollowContainer, now: float) -> ContainerReport:
    state = CREATED if now < container.runs_at else EXITED if container.is_over(now) else RUNNING
    over = state == EXITED
    return ContainerReport(
        name=name,
        id=container_id(uid, name, container.attempt),
        state=state,
        attempt=container.attempt,
        image=image,
        image_ref=image_ref(image),
        started_at=container.runs_at,
        finished_at=container.ends_at if over else 0,
        exit_code=container.exit_code if over else 0,
        reason=container.reason if over else "",
        message=container.message if over else "",
        is_started=state == RUNNING and container.started_at <= now,
        is_ready=state == RUNNING and container.ready_at <= now,
    )


def container_id(uid: str, name: str, attempt: int) -> str:
    return f"{NAME}://{hashlib.sha256(f'{uid}/{name}/{attempt}'.encode()).hexdigest()}"


def image_ref(image: str) -> str:
    return f"{image.partition('@')[0].rpartition(':')[0] or image}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"
