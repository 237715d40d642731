"""What a kubelet keeps of its node and of each pod: little, for there may be many in one process."""

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
    """Of a pod's life on its node; never backwards."""

    SYNC = 1
    """It is made to run."""
    TERMINATING = 2
    """Its containers are stopped."""
    TERMINATED = 3
    """Nothing of it runs, and nothing will."""


@dataclass(slots=True, kw_only=True, eq=False)
class NodeRecord:
    """A node and what its kubelet acts with."""

    name: str
    client: Client
    """With the rights of this node."""
    runtime: Runtime
    machine: Machine
    node: Node
    """As last seen; shared, read-only."""
    pods: set[str] = field(default_factory=set)
    """The uids of those that have not ended."""
    used: Amounts = field(default_factory=dict)
    """What they ask for together."""
    lease: Lease | None = None
    beats_at: float = 0.0
    """The monotonic time at which the next heartbeat is due."""
    reported_at: float | None = None
    """The monotonic time at which the status was last written or found unchanged; None before the first time."""
    is_changed: bool = False
    """The node was written by somebody since its status was last looked at."""
    provision: Provision | None = None
    """Of a real node."""

    def report(self, pod: Pod) -> PodReport:
        return self.runtime.pod_report(pod) if self.provision is None else self.provision.report(pod)


@dataclass(slots=True, kw_only=True, eq=False)
class PodRecord:
    kubelet: NodeRecord
    pod: Pod
    """As last seen; shared, read-only."""
    stage: Stage = Stage.SYNC
    wanted: Amounts | None = None
    """What it asks for, while that is counted in the node's `used`."""
    waiting: dict[str, tuple[str, str]] | None = None
    """Why containers could not be started when it was last tried."""
    back_offs: dict[str, BackOff] | None = None
    verdict: Verdict | None = None
    stop_by: float = 0.0
    """The monotonic time by which all of it must have ended; 0 while it is to run."""
    stopped: dict[str, float] | None = None
    """Containers that were told to stop, and by when."""
    actuated: dict[str, ResourceRequirements] | None = None
    """What containers run with, where that is known; else what the spec says."""
    resize: tuple[str, str, str] | None = None
    """Of a resize that is not done: the condition that tells it, its reason and message."""
    restarts: set[str] | None = None
    """Containers that have to be begun anew to have other resources."""
    is_resetting: bool = False
    """All its containers end, to begin anew together."""
    killed: set[str] | None = None
    """The ids of containers that were told to end while the pod goes on."""
    is_admitted: bool = False
    """What it asks for is set aside for it."""
    is_finished: bool = False
    """Nothing is left of it that the API server's object has to stay for."""
    is_gone: bool = False
    """It is no longer on the API server."""
    is_static: bool = False
    """It is the node's own, and the API server has but a mirror of it."""
    mirror: Pod | None = None
    is_ending: bool = False
    """It is to end although its deletion was not asked of the API server."""
    ending: asyncio.Event | None = None
    """Where somebody waits for it: set when the pod is to end."""
    said: PodStatus | None = None
    """The latest status, until `pod` shows it."""
    written: PodStatus | None = None
    """Of `said`, what the API server has taken, until `pod` shows it."""
    version: int = 0
    """The resource version of `written`."""

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def status(self) -> PodStatus:
        """What was last said of the pod."""
        return self.said if self.said is not None else self.pod.status

    @property
    def shown(self) -> Pod | None:
        """What the API server has of it."""
        return self.mirror if self.is_static else self.pod

    def free(self) -> None:
        """The pod no longer counts on its node."""
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
"""By uid."""

__all__ = ["NodeRecord", "PodRecord", "Records", "Stage"]
