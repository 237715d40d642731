"""The types that plugins and the framework exchange: statuses and results, and the state of a cycle.

The counterpart is `pkg/scheduler/framework/interface.go`. The extension points themselves are in `extension_points`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, NamedTuple, Protocol

from sampan.api.types.core_v1 import Pod
from sampan.scheduler.cache.arrays import Codes, Rows
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature
from sampan.scheduler.framework.diagnosis import Diagnosis, RejectionTable

MAX_SCORE = 100


class PluginScope(IntEnum):
    """The part of the cluster on which the results of a plugin's filter and score depend, besides the pod's signature.

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
    """The name of the plugin, set by the framework."""
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
    min_count: int
    """How many pods of the group must have a node."""
    count_scheduled: Callable[[], int]
    """Returns how many pods of the group have a node, reserved or bound."""
    find_mismatch: Callable[[Sequence[Pod]], str]
    """Returns why pods cannot be scheduled together, or ""."""
    publish: Callable[[str, str], Coroutine[Any, Any, None]]
    """Publishes the outcome of an attempt: the reason and the message of its failure, or "" twice for success."""


class NodeFilters(Protocol):
    """The filters of the pod's profile, as preemption runs them on one node."""

    def fits(self, cycle: CycleState, row: int) -> bool: ...
    def fits_with(self, cycle: CycleState, row: int, pods: Sequence[PodInfo]) -> bool: ...
    def codes(self, cycle: CycleState, rows: Rows, *, again: bool = False) -> Codes: ...


class CycleState:
    """One attempt to find a node for one pod."""

    __slots__ = ("filters", "inapplicable", "info", "memo", "now", "rejections", "table")

    def __init__(
        self, *, info: PodInfo, table: NodeTable, rejections: RejectionTable, filters: NodeFilters, now: float
    ) -> None:
        self.info, self.table, self.rejections, self.filters, self.now = info, table, rejections, filters, now
        self.memo: dict[str, Any] = {}
        """State that plugins keep between extension points, keyed by plugin name."""
        self.inapplicable: frozenset[str] = frozenset()
        """The plugins that have nothing to do for pods with this signature."""

    @property
    def pod(self) -> Pod:
        return self.info.pod

    @property
    def signature(self) -> PodSignature:
        return self.info.signature

    def reject(self, plugin: str, *reasons: str, is_final: bool = False) -> int:
        """Return the code of a rejection; `is_final` means that preemption on the node would not help."""
        return self.rejections.code(plugin, *reasons, is_final=is_final)
