"""What plug-ins are given and what they give: the extension points of the scheduling framework.

A plug-in implements the points that it needs and no others:

    pre_enqueue(info) -> Status | None          may the pod enter the queue?
    less(first, second) -> bool                 which pod goes first (one plug-in per scheduler)
    together(info) -> Together | None           pods that get nodes in one go with this one, or not at all
    prepare(cycle) -> Awaitable | None          work for `filter` that takes long, in turns: others run meanwhile, so
                                                that what is found out must be kept, and looked at again by `filter`
    pre_filter(cycle) -> Status | Narrowed | None   once per pod: SKIP leaves out `filter`, a rejection ends the cycle
    filter(cycle, rows) -> codes                0 where the node will do, else a code of `cycle.refuse(...)`
    async post_filter(cycle, diagnosis) -> PostFilterResult    no node will do: can something be done?
    pre_score(cycle, rows) -> Status | None     SKIP leaves out `score`
    score(cycle, rows) -> int64 array
    normalize(cycle, scores) -> int64 array     to 0..100, over all nodes that are possible
    reserve(cycle, node) -> Status | None, unreserve(cycle, node)
    permit(cycle, node) -> Status | None        WAIT with `wait_s` holds the pod back before it is bound
    async pre_bind(cycle, node) -> Status | None
    async take_back(cycle, node)                what `pre_bind` wrote, if the pod is not bound; after `unreserve`
    has_pre_bind(cycle, node) -> bool           whether `pre_bind` has anything to do for this pod; without it, always
    async bind(cycle, node) -> Status | None    SKIP leaves it to the next plug-in
    post_bind(cycle, node)
    events() -> [(ClusterEvent, hint)]          what may make a pod schedulable that this plug-in has refused

`filter` and `score` get rows as a slice or an array of numbers, and work on the columns of `cycle.table`.
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
from sampan.scheduler.framework.verdicts import Verdicts
from sampan.scheduler.needs import Needs
from sampan.scheduler.node_table import NodeTable
from sampan.scheduler.pod_info import PodInfo

if TYPE_CHECKING:
    from sampan.scheduler.diagnosis import Diagnosis
    from sampan.scheduler.extenders.chain import ExtenderChain
    from sampan.scheduler.framework.profile import Profile
    from sampan.scheduler.nominations import Nominations
    from sampan.scheduler.waiting import WaitingPods

MAX_SCORE = 100


class Scope(IntEnum):
    """What a plug-in's filter and score look at besides the pod's needs. The narrower, the less is computed again."""

    NODE = 0
    """The Node object."""
    PODS = 1
    """Also the pods on that node."""
    CLUSTER = 2
    """Anything: other nodes, the pod's labels, time. Computed for every pod anew."""


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
    """Stamped by the framework."""
    wait_s: float = 0

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def is_rejected(self) -> bool:
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)


SKIP = Status(Code.SKIP)


class Narrowed(NamedTuple):
    """Of `pre_filter`: only these nodes need be looked at."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """`nominated` is a node that will do soon, "" to take a nomination back, None to leave it as it is."""

    nominated: str | None = None
    message: str = ""
    is_success: bool = False
    victims: tuple[PodInfo, ...] = ()
    """Pods to be evicted from the nominated node."""


class Together(NamedTuple):
    """Pods that are to have nodes all at once."""

    uids: Sequence[str]
    """Of those that have none yet."""
    is_enough: Callable[[], bool]
    """Whether those that a node is reserved for will do."""
    waiting: str
    """What those wait for that have a node while others have none."""
    tell: Callable[[str], Coroutine[Any, Any, None]]
    """To be called when an attempt has ended: why it failed, "" if it did not."""


class Resource(Enum):
    POD = "UnschedulablePod"
    """Itself, while it waits."""
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


class Action(Enum):
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
    resource: Resource
    action: Action

    @property
    def label(self) -> str:
        """As metrics name it."""
        action = self.action.value
        if self.action is Action.UPDATE_LABELS:
            action = _LABELS_CHANGED.get(self.resource, Action.UPDATE.value)
        return f"{self.resource.value}{action}"


_LABELS_CHANGED = {
    Resource.NODE: "UpdateNodeLabel",
    Resource.POD: "UpdatePodLabel",
    Resource.ASSIGNED_POD: "UpdatePodLabel",
}


Hint = Callable[[PodInfo, Any | None, Any | None], bool]
"""With a waiting pod, the object as it was and as it is: may that make the pod schedulable?"""

Events = list[tuple[ClusterEvent, Hint | None]]


class Cycle:
    """One attempt to find a node for one pod."""

    __slots__ = ("info", "memo", "now", "profile", "table", "verdicts")

    def __init__(self, *, info: PodInfo, table: NodeTable, verdicts: Verdicts, profile: Profile, now: float) -> None:
        self.info, self.table, self.verdicts, self.profile, self.now = info, table, verdicts, profile, now
        self.memo: dict[str, Any] = {}
        """What plug-ins carry from one point to the next, under their names."""

    @property
    def pod(self) -> Pod:
        return self.info.pod

    @property
    def needs(self) -> Needs:
        return self.info.needs

    def refuse(self, plugin: str, *reasons: str, is_final: bool = False) -> int:
        """The code of a verdict; `is_final` if removing pods from the node would not help."""
        return self.verdicts.code(plugin, *reasons, is_final=is_final)


class Plugin(Protocol):
    """The least that a plug-in is."""

    @property
    def name(self) -> str: ...

    @property
    def scope(self) -> Scope: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """What plug-ins are made from."""

    table: NodeTable
    clock: Clock
    informers: InformerFactory
    client: Client
    nominations: Nominations
    waiting: WaitingPods
    """Pods that a `permit` holds back: plug-ins allow or reject them here."""
    on_event: Callable[[ClusterEvent, Any | None, Any | None], int]
    """Tell the queue of a change that may make waiting pods schedulable."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """The plug-in's arguments from the configuration."""
    scheduler_name: str = ""
    extenders: ExtenderChain | None = None
    """Those that have a say besides the plug-ins."""
    say: Callable[[PodInfo, str, str, str, str], None] = lambda *told: None
    """An event about a pod: its type, reason, action and note."""
    shared: dict[type[Any], Any] = field(default_factory=dict)
    """What plug-ins of several profiles have in common, by its type."""
    reported: set[Resource] = field(default_factory=set)
    """Kinds whose changes somebody passes on to `on_event` already."""


Factory = Callable[[Handle], Any]


class PostFilter(Protocol):
    async def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult: ...


__all__ = [
    "MAX_SCORE",
    "SKIP",
    "Action",
    "ClusterEvent",
    "Code",
    "Cycle",
    "Events",
    "Factory",
    "Handle",
    "Hint",
    "Narrowed",
    "Plugin",
    "PostFilter",
    "PostFilterResult",
    "Resource",
    "Scope",
    "Status",
    "Together",
]
