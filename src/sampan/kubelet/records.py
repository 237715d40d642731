"""State that a kubelet keeps per node and per pod. It is small, because one process may run many nodes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Node, Pod, PodStatus, ResourceRequirements
from sampan.kubelet.admission import Amounts
from sampan.kubelet.backoff import BackOff
from sampan.kubelet.node_status import Machine
from sampan.kubelet.pod_status import Verdict
from sampan.machinery.client import Client
from sampan.runtimes.contract import PodReport, Runtime

if TYPE_CHECKING:
    from sampan.kubelet.provision import Provision


class Stage(Enum):
    """Stage of a pod on its node. It never goes backwards."""

    SYNC = 1
    """The pod should run."""
    TERMINATING = 2
    """Its containers are being stopped."""
    TERMINATED = 3
    """None of its containers runs or will run."""


@dataclass(slots=True, kw_only=True, eq=False)
class NodeRecord:
    """A node together with the client, runtime and machine that its kubelet uses."""

    name: str
    client: Client
    """Client with the identity of this node."""
    runtime: Runtime
    machine: Machine
    node: Node
    """The node as last seen; shared and read-only."""
    pods: set[str] = field(default_factory=set)
    """UIDs of the pods that count against the node's resources."""
    used: Amounts = field(default_factory=dict)
    """Sum of the requests of `pods`."""
    lease: Lease | None = None
    beats_at: float = 0.0
    """Monotonic time at which the next heartbeat is due."""
    reported_at: float | None = None
    """Monotonic time at which the status was last written or first seen unchanged; None before that."""
    is_changed: bool = False
    """Whether the node's status may differ from the one last computed."""
    provision: Provision | None = None
    """Work around the containers of pods on a real node; None for a hollow node."""

    def report(self, pod: Pod) -> PodReport:
        return self.runtime.pod_report(pod) if self.provision is None else self.provision.report(pod)


@dataclass(slots=True, kw_only=True, eq=False)
class PodRecord:
    kubelet: NodeRecord
    pod: Pod
    """The pod as last seen; shared and read-only."""
    stage: Stage = Stage.SYNC
    wanted: Amounts | None = None
    """Requests of the pod while they are included in the node's `used`."""
    waiting: dict[str, tuple[str, str]] | None = None
    """Reason and message of containers that could not be started at the last attempt."""
    back_offs: dict[str, BackOff] | None = None
    verdict: Verdict | None = None
    stop_by: float = 0.0
    """Monotonic time by which all containers must have stopped; 0 while the pod should run."""
    stopped: dict[str, float] | None = None
    """Containers that are being stopped, with their deadline in monotonic time."""
    actuated: dict[str, ResourceRequirements] | None = None
    """Resources that containers actually run with, where known; otherwise those of the spec apply."""
    resize: tuple[str, str, str] | None = None
    """Condition type, reason and message of a pending or ongoing resize."""
    restarts: set[str] | None = None
    """Containers that must be restarted for a change of their resources."""
    is_resetting: bool = False
    """Whether all containers are being stopped in order to be restarted together."""
    killed: set[str] | None = None
    """IDs of containers that are being stopped while the pod keeps running."""
    is_admitted: bool = False
    """Whether the devices of the pod have been allocated."""
    is_finished: bool = False
    """Whether nothing is left on the node for which the API object has to remain."""
    is_gone: bool = False
    """Whether the pod has been removed from its source."""
    is_static: bool = False
    """Whether this is a static pod, of which the API server has only a mirror pod."""
    mirror: Pod | None = None
    is_ending: bool = False
    """Whether the pod must terminate although its API object is not being deleted."""
    ending: asyncio.Event | None = None
    """Set when the pod has to terminate, in order to interrupt work in progress; None if there was none."""
    said: PodStatus | None = None
    """The latest status until `pod` reflects it."""
    written: PodStatus | None = None
    """The last status that the API server has accepted, until `pod` reflects it."""
    version: int = 0
    """Resource version of `written`."""

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def status(self) -> PodStatus:
        """The last computed status of the pod."""
        return self.said if self.said is not None else self.pod.status

    @property
    def shown(self) -> Pod | None:
        """The pod as the API server has it: for a static pod its mirror pod."""
        return self.mirror if self.is_static else self.pod

    def free(self) -> None:
        """Stop counting the pod against the resources of its node."""
        self.kubelet.pods.discard(self.uid)
        for name, amount in (self.wanted or {}).items():
            self.kubelet.used[name] -= amount
        self.wanted = None

    def count(self, wanted: Amounts) -> None:
        self.kubelet.pods.add(self.uid)
        self.wanted = wanted
        for name, amount in wanted.items():
            self.kubelet.used[name] = self.kubelet.used.get(name, 0) + amount


Records = dict[str, PodRecord]
"""Pod records by UID."""
