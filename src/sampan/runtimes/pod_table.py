"""The last observed state of a container engine (containerd, Docker), and the reports derived from it.

Observing an engine takes several calls, and several tasks do it concurrently. So each observer takes a ticket before
its first call, and an observation with a lower ticket never overwrites one with a higher ticket.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sampan.api.types.core_v1 import Pod
from sampan.runtimes import contract
from sampan.runtimes.contract import EMPTY_REPORT, ContainerReport, ContainerUser, PodReport, RuntimeFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSandbox:
    id: str
    attempt: int
    is_ready: bool
    created_at: float = 0
    ips: Sequence[str] = ()
    pid: int = 0
    """The process that holds the namespaces; 0 if the engine does not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedContainer:
    id: str
    sandbox: str
    name: str
    attempt: int
    state: str
    image: str = ""
    image_ref: str = ""
    created_at: float = 0
    started_at: float = 0
    finished_at: float = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    log_path: str = ""
    user: ContainerUser | None = None

    @property
    def is_over(self) -> bool:
        return self.state == contract.EXITED


@dataclass(slots=True)
class ObservedPod:
    sandboxes: Sequence[ObservedSandbox] = ()
    """The sandboxes of the pod, the latest first."""
    containers: Sequence[ObservedContainer] = ()
    """The runs of all containers of the pod, the latest first among those with the same name."""
    ticket: int = field(default=0, compare=False)

    @property
    def sandbox(self) -> ObservedSandbox | None:
        return self.sandboxes[0] if self.sandboxes else None

    def runs_of(self, name: str) -> list[ObservedContainer]:
        return [container for container in self.containers if container.name == name]


class PodTable:
    """The observed pods of one runtime. `name` is the name of the runtime, the scheme of container ids."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pods: dict[str, ObservedPod] = {}
        self._absent: dict[str, int] = {}
        """Tickets of observations in which a pod was absent, so that an older observation does not bring it back."""
        self._tickets = itertools.count(1)
        self._last_full_observation = 0

    def ticket(self) -> int:
        return next(self._tickets)

    def uids(self) -> list[str]:
        return list(self._pods)

    def get(self, uid: str) -> ObservedPod | None:
        return self._pods.get(uid)

    def put(
        self, uid: str, sandboxes: Sequence[ObservedSandbox], containers: Sequence[ObservedContainer], ticket: int
    ) -> bool:
        """Store an observation of a pod, and return whether it differs from the one before."""
        old = self._pods.get(uid)
        if ticket < (old.ticket if old is not None else self._absent.get(uid, 0)):
            return False
        if not sandboxes and not containers:
            self._absent[uid] = ticket
            return self._pods.pop(uid, None) is not None
        pod = ObservedPod(
            sorted(sandboxes, key=lambda item: (-item.attempt, -item.created_at)),
            sorted(containers, key=lambda item: (-item.attempt, -item.created_at)),
            ticket,
        )
        self._pods[uid] = pod
        self._absent.pop(uid, None)
        return pod != old

    def forget_before(self, ticket: int) -> None:
        """Note that all pods were observed with this ticket. Drop the tickets in `_absent` that are older than the
        previous observation of all pods, as no observation that old is still under way."""
        self._absent = {
            uid: absent_at for uid, absent_at in self._absent.items() if absent_at >= self._last_full_observation
        }
        self._last_full_observation = ticket

    # -- queries of the kubelet --------------------------------------------------------------------------------------

    def report(self, pod: Pod) -> PodReport:
        """Return the report for a pod. Init containers run again in a new sandbox, so their runs in the old sandbox are
        not current, and neither are failed runs of other containers: both are reported as previous runs."""
        observed_pod = self._pods.get(pod.metadata.uid)
        if observed_pod is None:
            return EMPTY_REPORT
        sandbox, inits = observed_pod.sandbox, {container.name for container in pod.spec.initContainers}
        present, before = [], []
        for name in dict.fromkeys(container.name for container in reversed(observed_pod.containers)):
            runs = observed_pod.runs_of(name)
            is_of_old = sandbox is not None and runs[0].sandbox != sandbox.id
            is_left = is_of_old and (name in inits or runs[0].exit_code != 0)
            present += [] if is_left else runs[:1]
            before += runs[:1] if is_left else runs[1:2]
        return PodReport(
            is_sandbox_ready=sandbox is not None and sandbox.is_ready,
            sandboxes=sandbox.attempt + 1 if sandbox is not None else 0,
            ips=sandbox.ips if sandbox is not None and sandbox.is_ready else (),
            containers=[self._container(container) for container in present],
            before=[self._container(container) for container in before],
        )

    def _container(self, container: ObservedContainer) -> ContainerReport:
        is_running, is_over = container.state == contract.RUNNING, container.is_over
        return ContainerReport(
            name=container.name,
            id=f"{self._name}://{container.id}",
            state=container.state,
            attempt=container.attempt,
            image=container.image,
            image_ref=container.image_ref,
            # Engines may record the exit of a short-lived container before its start.
            started_at=min(container.started_at, container.finished_at) if is_over else container.started_at,
            finished_at=container.finished_at if is_over else 0,
            exit_code=container.exit_code if is_over else 0,
            reason=container.reason if is_over else "",
            message=container.message if is_over else "",
            is_started=is_running,
            is_ready=is_running,
            user=container.user,
        )

    def find_running_container(self, uid: str, name: str) -> ObservedContainer:
        pod = self._pods.get(uid)
        runs = pod.runs_of(name) if pod is not None else []
        if not runs or runs[0].state != contract.RUNNING:
            raise RuntimeFailure("NotFound", f'container "{name}" is not running')
        return runs[0]

    def ready_sandbox(self, uid: str, reason: str = "NotFound") -> ObservedSandbox:
        pod = self._pods.get(uid)
        if pod is None or pod.sandbox is None or not pod.sandbox.is_ready:
            raise RuntimeFailure(reason, "the pod has no sandbox")
        return pod.sandbox

    def find(self, uid: str, id: str) -> ObservedContainer | None:
        pod = self._pods.get(uid)
        container_id = id.removeprefix(f"{self._name}://")
        return (
            next((container for container in pod.containers if container.id == container_id), None)
            if pod is not None
            else None
        )

    def log_file(self, uid: str, name: str, *, previous: bool) -> Path | None:
        pod = self._pods.get(uid)
        runs = pod.runs_of(name) if pod is not None else []
        run = runs[1:2] if previous else runs[:1]
        return Path(run[0].log_path) if run and run[0].log_path else None


def exit_reason(reason: str, exit_code: int) -> str:
    """Return the reason reported by the engine, or else Error or Completed, depending on the exit code."""
    return reason or (contract.ERROR if exit_code else contract.COMPLETED)
