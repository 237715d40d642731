"""The plug-in contract: the extension points of the scheduling framework and the types that plug-ins exchange with it.

A plug-in implements the points that it needs and no others:

    pre_enqueue(info) -> Status | None          whether the pod may enter the queue
    sort_key(info, since) -> tuple              the order of the queue (one plug-in per scheduler)
    together(info) -> Together | None           pods that are scheduled in one group cycle with this one
    prepare(cycle) -> Awaitable | None          long-running work for `filter`; other tasks run meanwhile, so that its
                                                results must be cached and validated again by `filter`
    pre_filter(cycle) -> Status | Narrowed | None   once per pod: SKIP omits `filter`, a rejection ends the cycle
    filter(cycle, rows) -> codes                0 where the node fits, else a code of `cycle.reject(...)`
    async post_filter(cycle, diagnosis) -> PostFilterResult    no node fits: can the pod be made schedulable?
    pre_score(cycle, rows) -> Status | None     SKIP omits `score`
    score(cycle, rows) -> int64 array
    normalize(cycle, scores) -> int64 array     to 0..100, over all feasible nodes
    reserve(cycle, node) -> Status | None, unreserve(cycle, node)
    permit(cycle, node) -> Status | None        WAIT with `wait_s` delays the binding of the pod
    async pre_bind(cycle, node) -> Status | None
    async take_back(cycle, node)                undo `pre_bind` if the pod is not bound; called after `unreserve`
    has_pre_bind(cycle, node) -> bool           whether `pre_bind` has work to do for this pod; without it, always
    async bind(cycle, node) -> Status | None    SKIP leaves binding to the next plug-in
    post_bind(cycle, node)
    events() -> [(ClusterEvent, hint)]          events that may make a pod schedulable that this plug-in rejected

`filter` and `score` receive rows as a slice or an array of row numbers and operate on the columns of `cycle.table`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sampan.api.types.core_v1 import Pod
from sampan.machinery.client import Client
from sampan.machinery.clock import Clock
from sampan.machinery.informer import InformerFactory
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature
from sampan.scheduler.framework.diagnosis import RejectionTable

if TYPE_CHECKING:
    from sampan.scheduler.extenders.extender_chain import ExtenderChain
    from sampan.scheduler.framework.diagnosis import Diagnosis
    from sampan.scheduler.framework.framework import Framework
    from sampan.scheduler.framework.waiting_pods import WaitingPods
    from sampan.scheduler.queue.nominator import Nominator

MAX_SCORE = 100


class PluginScope(IntEnum):
    """What the results of a plug-in's filter and score depend on besides the pod's needs.

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


class PodGroupAttempt(NamedTuple):
    """Pods that must be scheduled together."""

    uids: Sequence[str]
    """The UIDs of the group's pods that are not bound."""
    is_enough: Callable[[], bool]
    """Whether enough pods of the group have a node reserved."""
    waiting: str
    """The message for pods that have a node while the group is incomplete."""
    tell: Callable[[str], Coroutine[Any, Any, None]]
    """Publishes the outcome of an attempt: the reason for its failure, or "" for success."""


class EventResource(Enum):
    POD = "UnschedulablePod"
    """The pending pod itself."""
    ASSIGNED_POD = "AssignedPod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    SERVICE = "Service"
    PVC = "PersistentVolumeClaim"
    PV = "PersistentVolume"
    STORAGE_CLASS = "StorageClass"
    CSI_NODE = "CSINode"
    CSI_DRIVER = "CSIDriver"
    CSI_CAPACITY = "CSIStorageCapacity"
    VOLUME_ATTACHMENT = "VolumeAttachment"
    RESOURCE_CLAIM = "ResourceClaim"
    RESOURCE_SLICE = "ResourceSlice"
    DEVICE_CLASS = "DeviceClass"
    POD_GROUP = "PodGroup"


class ActionType(Enum):
    ADD = "Add"
    DELETE = "Delete"
    UPDATE = "Update"
    UPDATE_LABELS = "UpdateLabel"
    UPDATE_TAINTS = "UpdateNodeTaint"
    UPDATE_ALLOCATABLE = "UpdateNodeAllocatable"
    UPDATE_FEATURES = "UpdateNodeDeclaredFeature"
    UPDATE_REQUESTS = "UpdatePodScaleDown"
    UPDATE_TOLERATIONS = "UpdatePodToleration"
    UPDATE_GATES = "UpdatePodSchedulingGatesEliminated"


class ClusterEvent(NamedTuple):
    resource: EventResource
    action: ActionType

    @property
    def label(self) -> str:
        """The name of the event in metrics."""
        action = self.action.value
        if self.action is ActionType.UPDATE_LABELS:
            action = _LABELS_CHANGED.get(self.resource, ActionType.UPDATE.value)
        return f"{self.resource.value}{action}"


_LABELS_CHANGED = {
    EventResource.NODE: "UpdateNodeLabel",
    EventResource.POD: "UpdatePodLabel",
    EventResource.ASSIGNED_POD: "UpdatePodLabel",
}


QueueingHint = Callable[[PodInfo, Any | None, Any | None], bool]
"""Whether a change (old object, new object) may make the pending pod schedulable."""

Events = list[tuple[ClusterEvent, QueueingHint | None]]


class CycleState:
    """One attempt to find a node for one pod."""

    __slots__ = ("info", "memo", "now", "profile", "rejections", "table")

    def __init__(
        self, *, info: PodInfo, table: NodeTable, rejections: RejectionTable, profile: Framework, now: float
    ) -> None:
        self.info, self.table, self.rejections, self.profile, self.now = info, table, rejections, profile, now
        self.memo: dict[str, Any] = {}
        """State that plug-ins keep between extension points, keyed by plug-in name."""

    @property
    def pod(self) -> Pod:
        return self.info.pod

    @property
    def signature(self) -> PodSignature:
        return self.info.signature

    def reject(self, plugin: str, *reasons: str, is_final: bool = False) -> int:
        """Return the code of a verdict; `is_final` means that preemption on the node would not help."""
        return self.rejections.code(plugin, *reasons, is_final=is_final)


class Plugin(Protocol):
    """The attributes that every plug-in has."""

    @property
    def name(self) -> str: ...

    @property
    def scope(self) -> PluginScope: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """What plug-in factories receive."""

    table: NodeTable
    clock: Clock
    informers: InformerFactory
    client: Client
    nominator: Nominator
    waiting: WaitingPods
    """Pods that wait in Permit; plug-ins allow or reject them here."""
    on_event: Callable[[ClusterEvent, Any | None, Any | None], int]
    """Reports a change that may make pending pods schedulable to the queue, and returns how many it requeued."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the plug-in from the configuration."""
    scheduler_name: str = ""
    extenders: ExtenderChain | None = None
    """The extenders of the scheduler."""
    say: Callable[[PodInfo, str, str, str, str], None] = lambda *told: None
    """Publishes an event about a pod with this type, reason, action and note."""
    shared: dict[type[Any], Any] = field(default_factory=dict)
    """Objects that plug-ins of several profiles share, by type."""
    reported: set[EventResource] = field(default_factory=set)
    """Resources whose changes are already passed to `on_event`."""


Factory = Callable[[Handle], Any]


class PostFilter(Protocol):
    async def post_filter(self, cycle: CycleState, diagnosis: Diagnosis) -> PostFilterResult: ...
