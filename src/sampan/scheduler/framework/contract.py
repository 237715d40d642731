"""The types that plug-ins and the framework exchange: statuses and results, the state of a cycle, and the handle.

The counterpart is `pkg/scheduler/framework/interface.go`. The extension points themselves are in `extension_points`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from sampan.api.types.core_v1 import Pod
from sampan.host.clock import Clock
from sampan.machinery.client import Client
from sampan.machinery.informer import Informer, InformerFactory
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature
from sampan.scheduler.framework.cluster_event import ClusterEventPublisher, EventResource
from sampan.scheduler.framework.diagnosis import Diagnosis, RejectionTable

if TYPE_CHECKING:
    from sampan.scheduler.cache.scheduler_cache import Nominator
    from sampan.scheduler.extenders.extender_chain import ExtenderChain
    from sampan.scheduler.framework.framework import Framework
    from sampan.scheduler.framework.waiting_pods import WaitingPods

T = TypeVar("T")

MAX_SCORE = 100


class PluginScope(IntEnum):
    """The part of the cluster on which the results of a plug-in's filter and score depend, besides the pod's signature.

    The narrower the scope is, the longer the framework can cache the results.
    """

    NODE = 0
    """The results depend on the Node object only."""
    PODS = 1
    """The results also depend on the pods on that node."""
    CLUSTER = 2
    """The results depend on anything else: other nodes, the pod's labels, time. They are computed for every pod."""


class Code(Enum):
    SUCCESS = "Success"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    PENDING = "Pending"
    SKIP = "Skip"
    WAIT = "Wait"
    ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Status:
    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    """The name of the plug-in, set by the framework."""
    wait_s: float = 0

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def is_rejected(self) -> bool:
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)


SKIP = Status(Code.SKIP)


class PreFilterResult(NamedTuple):
    """A result of `pre_filter` that restricts the cycle to these nodes."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """The result of `post_filter`.

    `nominated` is the node to nominate, "" to clear an existing nomination, or None to leave it unchanged.
    """

    nominated: str | None = None
    message: str = ""
    is_success: bool = False
    victims: tuple[PodInfo, ...] = ()
    """Pods to evict from the nominated node."""


class ScheduleResult:
    """The selected node, or the diagnosis if no node fits."""

    __slots__ = ("diagnosis", "feasible", "row", "score")

    def __init__(self, row: int = -1, feasible: int = 0, score: int = 0, diagnosis: Diagnosis | None = None) -> None:
        self.row, self.feasible, self.score, self.diagnosis = row, feasible, score, diagnosis


class PodGroupAttempt(NamedTuple):
    """Pods that must be scheduled in one group cycle."""

    uids: Sequence[str]
    """The UIDs of the group's pods that are not bound."""
    is_enough: Callable[[], bool]
    """Whether enough pods of the group have a node reserved."""
    waiting_message: str
    """The message for pods that have a node while the group is incomplete."""
    publish: Callable[[str], Coroutine[Any, Any, None]]
    """Publishes the outcome of an attempt: the reason for its failure, or "" for success."""


class PublishEvent(Protocol):
    def __call__(self, info: PodInfo, type: str, reason: str, action: str, note: str) -> None: ...


def _publish_nothing(info: PodInfo, type: str, reason: str, action: str, note: str) -> None:
    pass


class CycleState:
    """One attempt to find a node for one pod."""

    __slots__ = ("framework", "inapplicable", "info", "memo", "now", "rejections", "table")

    def __init__(
        self, *, info: PodInfo, table: NodeTable, rejections: RejectionTable, framework: Framework, now: float
    ) -> None:
        self.info, self.table, self.rejections, self.framework, self.now = info, table, rejections, framework, now
        self.memo: dict[str, Any] = {}
        """State that plug-ins keep between extension points, keyed by plug-in name."""
        self.inapplicable: frozenset[str] = frozenset()
        """The plug-ins that have nothing to do for pods with this signature."""

    @property
    def pod(self) -> Pod:
        return self.info.pod

    @property
    def signature(self) -> PodSignature:
        return self.info.signature

    def reject(self, plugin: str, *reasons: str, is_final: bool = False) -> int:
        """Return the code of a rejection; `is_final` means that preemption on the node would not help."""
        return self.rejections.code(plugin, *reasons, is_final=is_final)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """The object that the constructor of a plug-in receives (compare `framework.Handle`)."""

    table: NodeTable
    clock: Clock
    informers: InformerFactory
    client: Client
    nominator: Nominator
    waiting: WaitingPods
    """Pods that wait in Permit; plug-ins allow or reject them here."""
    cluster_events: ClusterEventPublisher
    """Receives changes that may make pending pods schedulable."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the plug-in from the configuration."""
    scheduler_name: str = ""
    extenders: ExtenderChain | None = None
    """The extenders of the scheduler."""
    publish_event: PublishEvent = _publish_nothing
    """Publishes an event about a pod."""
    _shared: dict[type[object], object] = field(default_factory=dict)

    def watch(self, type: type[T], resource: EventResource) -> Informer[T]:
        """Return the informer of the type, whose changes are published as cluster events of `resource`."""
        informer = self.informers.for_kind(type)
        self.cluster_events.report(informer, resource)
        return informer

    def share(self, type: type[T], make: Callable[[], T]) -> T:
        """Return the object of this type that the plug-ins of all profiles share; the first call makes it."""
        if type not in self._shared:
            self._shared[type] = make()
        shared = self._shared[type]
        assert isinstance(shared, type)
        return shared
