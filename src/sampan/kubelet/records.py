"""State that a kubelet keeps per node and per pod. It is small, because one process may run many nodes.

A PodRecord has five parts: the node, the desired state of the pod (`spec`), the position in its life on the node
(`state`), the work done so far (`progress`), and the status that the API server has received (`published`). The state
changes only along `TRANSITIONS`; everything else that the kubelet learns about a pod is a field of one of the other
parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Node, Pod, PodStatus, ResourceRequirements
from sampan.host.activity import Activity
from sampan.host.backoff import Backoff, FailureBackoff
from sampan.host.clock import Clock
from sampan.kubelet.node_status import NodeMachine
from sampan.kubelet.pod_status import PodFailure
from sampan.machinery.client import Client
from sampan.machinery.control_loop.workqueue import WorkQueue
from sampan.runtimes.contract import Runtime

Amounts = dict[str, int]
"""Resource amounts by name: CPU in millicores, everything else in whole units."""


class PodSyncState(Enum):
    """The position of a pod in its life on a node (compare `podSyncStatus` in `pkg/kubelet/pod_workers.go`)."""

    NEW = "New"
    """The pod source has delivered the pod, and the node has not decided about it."""
    ADMITTED = "Admitted"
    """The node has admitted the pod; its requests count against the node's resources."""
    SYNCING = "Syncing"
    """The devices of the pod are allocated; `sync_pod` starts whatever should run."""
    TERMINATING = "Terminating"
    """The containers of the pod are being stopped, and none is started again."""
    TERMINATED = "Terminated"
    """No container of the pod runs or will run; its volumes, cgroups and containers may still be there."""
    FINISHED = "Finished"
    """Nothing of the pod is left on the node for which the API object has to remain."""
    REMOVED = "Removed"
    """The pod source no longer has the pod, and its record is dropped."""


_NEW, _ADMITTED, _SYNCING, _TERMINATING, _TERMINATED, _FINISHED, _REMOVED = PodSyncState

TRANSITIONS: Mapping[PodSyncState, frozenset[PodSyncState]] = {
    # A pod that the node rejects, or that was complete before this kubelet started, goes straight to TERMINATED.
    _NEW: frozenset({_ADMITTED, _TERMINATED, _REMOVED}),
    # TERMINATING: the pod must stop before its devices are allocated. TERMINATED: their allocation was rejected.
    _ADMITTED: frozenset({_SYNCING, _TERMINATING, _TERMINATED, _REMOVED}),
    _SYNCING: frozenset({_TERMINATING, _REMOVED}),
    _TERMINATING: frozenset({_TERMINATED, _REMOVED}),
    _TERMINATED: frozenset({_FINISHED, _REMOVED}),
    _FINISHED: frozenset({_REMOVED}),
    _REMOVED: frozenset(),
}
"""The legal transitions between states. A state never goes back; a pod can be removed from its source at any time."""

ACTIVE = frozenset({_NEW, _ADMITTED, _SYNCING})
"""States in which the pod should run."""
ENDED_STATES = frozenset({_TERMINATED, _FINISHED, _REMOVED})
"""States in which no container of the pod runs or will run."""


class IllegalTransition(RuntimeError):
    """A change of a pod's state that `TRANSITIONS` does not contain; a bug of the kubelet."""


@dataclass(slots=True, kw_only=True, eq=False)
class NodeRecord:
    """A node together with the client, runtime and machine that its kubelet uses."""

    name: str
    client: Client
    """Client with the identity of this node."""
    runtime: Runtime
    machine: NodeMachine
    api_node: Node
    """The Node object as last seen; shared and read-only."""
    pods: set[str] = field(default_factory=set)
    """UIDs of the pods that count against the node's resources."""
    used: Amounts = field(default_factory=dict)
    """Sum of the requests of `pods`."""
    lease: Lease | None = None
    beats_at: float = 0.0
    """Monotonic time at which the next heartbeat is due."""
    reported_at: float | None = None
    """Monotonic time at which the status was last written or first seen unchanged; None before the first time."""
    is_changed: bool = False
    """Whether the node's status may differ from the one last computed."""


@dataclass(slots=True, kw_only=True, eq=False)
class PodIntent:
    """The desired state of a pod, as the pod source and the node have set it."""

    pod: Pod
    """The pod as last seen; shared and read-only."""
    is_static: bool = False
    """Whether this is a static pod, of which the API server has only a mirror pod."""
    mirror: Pod | None = None
    is_removed: bool = False
    """Whether the pod source no longer has the pod, so that whatever still runs is killed."""
    is_withdrawn: bool = False
    """Whether the manifest of a static pod is gone or replaced, so that the pod must terminate."""
    failure: PodFailure | None = None
    """Why the kubelet terminates the pod on its own initiative; None if it does not."""
    stop_by: float = 0.0
    """Monotonic time by which all containers must have stopped; 0 while the pod should run."""

    @property
    def is_deleted(self) -> bool:
        return self.pod.metadata.deletionTimestamp is not None


FIRST_S = 10.0
MAX_BACKOFF_S = 300.0
_RESET_S = 600.0
_BACKOFF = Backoff(FIRST_S, MAX_BACKOFF_S)


@dataclass(slots=True)
class ContainerBackoff(FailureBackoff):
    """The backoff of a container or of the pulls of an image: 10 s, doubled up to 5 min, reset after 10 min without
    failure. Times are monotonic unless a parameter says otherwise.
    """

    backoff: Backoff = _BACKOFF
    reset_s: float = _RESET_S
    why: str = ""
    """The last failure, for the status message while backing off."""
    _failure: tuple[float, float] | None = None
    """The wall-clock time of the last failure and the corresponding monotonic time."""

    def to_monotonic(self, stamp: float, *, now: float, monotonic: float) -> float:
        """Return the monotonic time of the failure with this wall-clock time. It is computed when the timestamp is
        first seen, so that adjusting the wall clock later does not move it.
        """
        if self._failure is None or self._failure[0] != stamp:
            self._failure = stamp, monotonic - max(now - stamp, 0.0)
        return self._failure[1]


@dataclass(slots=True, kw_only=True, eq=False)
class PodProgress:
    """The work that the kubelet has done for a pod so far, and the work in progress."""

    seen_at: float | None = None
    """Monotonic time at which the kubelet has seen the pod for the first time; None once the pod has run."""
    requests: Amounts | None = None
    """Requests of the pod while they are included in the node's `used`."""
    waiting: dict[str, tuple[str, str]] | None = None
    """Reason and message of containers that could not be started at the last attempt."""
    back_offs: dict[str, ContainerBackoff] | None = None
    stop_deadlines: dict[str, float] | None = None
    """Containers that are being stopped, with their deadline in monotonic time."""
    killed: set[str] | None = None
    """IDs of containers that are being stopped while the pod keeps running."""
    actuated: dict[str, ResourceRequirements] | None = None
    """Resources that containers actually run with, where known; otherwise those of the spec apply."""
    resize: tuple[str, str, str] | None = None
    """Condition type, reason and message of a pending or ongoing resize."""
    resize_restarts: set[str] | None = None
    """Containers that must be restarted for a change of their resources."""
    is_restarting_all: bool = False
    """Whether all containers are being stopped in order to be restarted together."""
    is_pulling: bool = False
    """Whether an image is being pulled for a container of the pod."""
    interruption: asyncio.Event | None = None
    """Set when the pod has to terminate, in order to interrupt work in progress; None before the first such work."""

    def back_off(self, container_name: str, max_s: float = MAX_BACKOFF_S) -> ContainerBackoff:
        """Return the restart backoff of a container, which is created when it is first needed."""
        if self.back_offs is None:
            self.back_offs = {}
        return self.back_offs.setdefault(container_name, ContainerBackoff(Backoff(FIRST_S, max_s)))

    def pull_back_off(self, image: str) -> ContainerBackoff:
        return self.back_off(f"image {image}")

    def wait(self, container_name: str, reason: str, message: str) -> None:
        self.waiting = (self.waiting or {}) | {container_name: (reason, message)}

    def interrupt(self) -> None:
        """Interrupt work that prepares or starts the pod, because the pod is terminating."""
        if self.interruption is not None:
            self.interruption.set()


@dataclass(slots=True, kw_only=True, eq=False)
class PublishedStatus:
    """The status of a pod on its way from the sync loop through the status manager to the API server."""

    pending: PodStatus | None = None
    """The latest status, until the pod as delivered by the watch reflects it."""
    written: PodStatus | None = None
    """The last status that the API server has accepted, until the pod as delivered by the watch reflects it."""
    version: int = 0
    """Resource version of `written`."""
    is_too_large: bool = False
    """Whether the API server has refused a status as too large, so that those of the containers are left out."""


class PodRecord:
    __slots__ = ("node", "progress", "published", "spec", "state")

    def __init__(self, *, node: NodeRecord, pod: Pod, mirror: Pod | None = None, is_static: bool = False) -> None:
        self.node = node
        self.spec = PodIntent(pod=pod, mirror=mirror, is_static=is_static)
        self.state = PodSyncState.NEW
        self.progress = PodProgress()
        self.published = PublishedStatus()

    def move_to(self, state: PodSyncState) -> None:
        """Change the state of the pod. Do nothing if the pod is in it already. Raise IllegalTransition if `TRANSITIONS`
        does not allow the change.
        """
        if state is self.state:
            return
        if state not in TRANSITIONS[self.state]:
            raise IllegalTransition(f"pod {self.uid}: {self.state.value} to {state.value}")
        self.state = state

    @property
    def pod(self) -> Pod:
        """The pod as last seen; shared and read-only."""
        return self.spec.pod

    @property
    def uid(self) -> str:
        return self.spec.pod.metadata.uid

    @property
    def status(self) -> PodStatus:
        """The last computed status of the pod."""
        return self.published.pending if self.published.pending is not None else self.spec.pod.status

    @property
    def pod_with_status(self) -> Pod:
        """The pod with its last computed status."""
        return self.pod if self.published.pending is None else msgspec.structs.replace(self.pod, status=self.status)

    @property
    def api_pod(self) -> Pod | None:
        """The pod as the API server has it: for a static pod its mirror pod."""
        return self.spec.mirror if self.spec.is_static else self.spec.pod

    def count(self, requests: Amounts) -> None:
        """Count the pod against the resources of its node."""
        self.node.pods.add(self.uid)
        self.progress.requests = requests
        for name, amount in requests.items():
            self.node.used[name] = self.node.used.get(name, 0) + amount

    def free(self) -> None:
        """Stop counting the pod against the resources of its node."""
        self.node.pods.discard(self.uid)
        for name, amount in (self.progress.requests or {}).items():
            self.node.used[name] -= amount
        self.progress.requests = None


Records = dict[str, PodRecord]
"""Pod records by UID."""


class PodQueue:
    """The pods to sync, through which all parts of the kubelet ask for a sync or for the termination of a pod. Nothing
    here runs a pod: the sync loop takes the UIDs from the queue."""

    def __init__(self, *, records: Records, clock: Clock, activity: Activity) -> None:
        self._records, self._activity = records, activity
        self._queue: WorkQueue[str] = WorkQueue(clock=clock, backoff=Backoff(1, 10), activity=activity)

    def add(self, uid: str) -> None:
        self._queue.add(uid)

    def request_sync(self, uid: str) -> None:
        """Request a sync of the pod, if it is known, because the runtime, a probe or a volume reports a change."""
        self._activity.step()
        if uid in self._records:
            self._queue.add(uid)

    def terminate(self, record: PodRecord, failure: PodFailure, by: float) -> None:
        """Terminate the pod on the node's own initiative (for example eviction), by the monotonic time `by`."""
        spec = record.spec
        spec.failure = spec.failure or failure
        spec.stop_by = min(by, spec.stop_by) if spec.stop_by else by
        record.progress.interrupt()
        self._queue.add(record.uid)

    def retry(self, uid: str) -> float:
        """Request another sync of the pod after a failure. Return the delay in seconds."""
        return self._queue.retry(uid)

    def record_success(self, uid: str, again_s: float | None) -> None:
        """Note a successful sync of the pod. `again_s` is the delay of its next sync, or None to wait for a change."""
        self._queue.forget(uid)
        if again_s is not None:
            self._queue.add_after(uid, again_s, follows_wall_clock=True)

    async def serve(self, work: Callable[[str], Awaitable[None]], workers: int) -> None:
        await self._queue.serve(work, workers)
