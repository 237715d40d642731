"""The extension points of the scheduling framework as Protocols, and the plugins of a profile at each of them.

A plugin is a class that takes a `Handle`, has a `name` and a `scope`, and implements the Protocols that it needs.
Which ones it implements is determined once, when a profile is created; a method whose name is nearly that of an
extension point is reported then. `filter` and `score` receive rows of the node table as a slice or an array of row
numbers and operate on the columns of `cycle.table`. The counterpart is `pkg/scheduler/framework/interface.go`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Protocol, runtime_checkable

from sampan.scheduler.cache.arrays import Codes, Ints, Rows
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.cache.pod_signature import PodSignature
from sampan.scheduler.framework.cluster_event import QueueingHints
from sampan.scheduler.framework.contract import (
    CycleState,
    PluginScope,
    PodGroupAttempt,
    PostFilterResult,
    PreFilterResult,
    Status,
)
from sampan.scheduler.framework.diagnosis import Diagnosis


class MisspeltExtensionPoint(ValueError):
    """A plugin has a method whose name is nearly that of an extension point."""


class SchedulerPlugin(Protocol):
    """The attributes that every plugin has."""

    name: str
    scope: PluginScope


# -- before the scheduling cycle --------------------------------------------------------------------------------------


@runtime_checkable
class PreEnqueuePlugin(SchedulerPlugin, Protocol):
    def pre_enqueue(self, info: PodInfo) -> Status | None:
        """Return the reason why the pod may not enter the queue, or None if it may."""
        ...


@runtime_checkable
class QueueSortPlugin(SchedulerPlugin, Protocol):
    def sort_key(self, info: PodInfo, since: float) -> tuple[float, ...]:
        """Return the sort key of a pod that has been in the queue since this monotonic time; one plugin per scheduler.

        Kubernetes compares two pods (`Less`); a key makes the queue a heap of tuples.
        """
        ...


@runtime_checkable
class EnqueueExtensions(SchedulerPlugin, Protocol):
    def events_to_register(self) -> QueueingHints:
        """Return the events that may make a pod schedulable after this plugin has rejected it.

        Pods that were rejected by a plugin without this method are retried on every event.
        """
        ...


@runtime_checkable
class PodGroupPlugin(SchedulerPlugin, Protocol):
    def pod_group(self, info: PodInfo) -> PodGroupAttempt | None:
        """Return the pods that are scheduled in one group cycle with this one, or None if it is scheduled alone."""
        ...


# -- the scheduling cycle ---------------------------------------------------------------------------------------------


@runtime_checkable
class PreparePlugin(SchedulerPlugin, Protocol):
    def prepare(self, cycle: CycleState) -> Awaitable[None] | None:
        """Return the long-running work that `filter` depends on, or None.

        Other tasks run meanwhile, so that its results must be cached, and validated again by `filter`.
        """
        ...


@runtime_checkable
class SignatureCondition(SchedulerPlugin, Protocol):
    def applies_to(self, signature: PodSignature) -> bool:
        """Return whether the plugin has anything to do for pods with this signature.

        It is called once per signature. A plugin that does not apply is left out of PreFilter and of all later points
        of the cycle except Score and PostFilter.
        """
        ...


@runtime_checkable
class PreFilterPlugin(SchedulerPlugin, Protocol):
    def pre_filter(self, cycle: CycleState) -> Status | PreFilterResult | None:
        """Prepare the filter; called once per pod.

        The status SKIP omits `filter`, a rejection ends the cycle, and a PreFilterResult restricts the nodes.
        """
        ...


@runtime_checkable
class FilterPlugin(SchedulerPlugin, Protocol):
    def filter(self, cycle: CycleState, rows: Rows) -> Codes:
        """Return for each row 0 if the node fits, otherwise a code of `cycle.reject(...)`."""
        ...


@runtime_checkable
class PostFilterPlugin(SchedulerPlugin, Protocol):
    async def post_filter(self, cycle: CycleState, diagnosis: Diagnosis) -> PostFilterResult:
        """Return whether and how a pod that fits no node can be made schedulable."""
        ...


@runtime_checkable
class PreScorePlugin(SchedulerPlugin, Protocol):
    def pre_score(self, cycle: CycleState, rows: Rows) -> Status | None:
        """Prepare `score` for the feasible rows. The status SKIP omits `score` for this pod."""
        ...


@runtime_checkable
class ScorePlugin(SchedulerPlugin, Protocol):
    def score(self, cycle: CycleState, rows: Rows) -> Ints:
        """Return the score of each row: from 0 to 100, or any number if the plugin implements `normalize`."""
        ...


@runtime_checkable
class ScoreExtensions(ScorePlugin, Protocol):
    def normalize(self, cycle: CycleState, scores: Ints) -> Ints:
        """Return the scores of all feasible nodes normalized to 0..100."""
        ...


# -- the binding cycle ------------------------------------------------------------------------------------------------


@runtime_checkable
class ReservePlugin(SchedulerPlugin, Protocol):
    def reserve(self, cycle: CycleState, node: str) -> Status | None:
        """Reserve resources for the assumed pod; any status but success ends the attempt."""
        ...


@runtime_checkable
class UnreservePlugin(SchedulerPlugin, Protocol):
    def unreserve(self, cycle: CycleState, node: str) -> None:
        """Undo `reserve`; called for every Reserve plugin, also for those whose `reserve` has not run."""
        ...


@runtime_checkable
class PermitPlugin(SchedulerPlugin, Protocol):
    def permit(self, cycle: CycleState, node: str) -> Status | None:
        """Return None to permit the binding; WAIT with `wait_s` delays it until `Handle.waiting` allows it."""
        ...


@runtime_checkable
class PreBindPlugin(SchedulerPlugin, Protocol):
    async def pre_bind(self, cycle: CycleState, node: str) -> Status | None:
        """Prepare the binding, for example write and await volume bindings."""
        ...


@runtime_checkable
class PreBindPreFlight(PreBindPlugin, Protocol):
    def has_pre_bind(self, cycle: CycleState, node: str) -> bool:
        """Return whether `pre_bind` has work to do for this pod; without this method it always has."""
        ...


@runtime_checkable
class PreBindRollback(PreBindPlugin, Protocol):
    async def rollback_pre_bind(self, cycle: CycleState, node: str) -> None:
        """Undo on the server what `pre_bind` wrote for a pod that is not bound; called after `unreserve`."""
        ...


@runtime_checkable
class BindPlugin(SchedulerPlugin, Protocol):
    async def bind(self, cycle: CycleState, node: str) -> Status | None:
        """Bind the pod to the node; SKIP leaves it to the next plugin."""
        ...


@runtime_checkable
class PostBindPlugin(SchedulerPlugin, Protocol):
    def post_bind(self, cycle: CycleState, node: str) -> None:
        """Handle a pod that was bound."""
        ...


# -- resolution -------------------------------------------------------------------------------------------------------

_BASE_MODULES = ("sampan.scheduler.framework.scalar_plugin",)
"""The modules with base classes, which plugins may extend instead of implementing the Protocols."""
METHODS = frozenset(
    {
        "applies_to",
        "bind",
        "events_to_register",
        "filter",
        "has_pre_bind",
        "normalize",
        "permit",
        "pod_group",
        "post_bind",
        "post_filter",
        "pre_bind",
        "pre_enqueue",
        "pre_filter",
        "pre_score",
        "prepare",
        "reserve",
        "rollback_pre_bind",
        "score",
        "sort_key",
        "unreserve",
    }
)
"""The methods of all extension points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionPoints:
    """The plugins of a profile at each extension point, in the order in which they run."""

    pre_enqueue: tuple[PreEnqueuePlugin, ...]
    queue_sort: tuple[QueueSortPlugin, ...]
    pre_filter: tuple[PreFilterPlugin, ...]
    filter: tuple[FilterPlugin, ...]
    post_filter: tuple[PostFilterPlugin, ...]
    pod_group_post_filter: tuple[PostFilterPlugin, ...]
    """The PostFilter plugins that also run for pods of a group that does not fit."""
    pre_score: tuple[PreScorePlugin, ...]
    score: tuple[ScorePlugin, ...]
    reserve: tuple[ReservePlugin, ...]
    permit: tuple[PermitPlugin, ...]
    pre_bind: tuple[PreBindPlugin, ...]
    bind: tuple[BindPlugin, ...]
    post_bind: tuple[PostBindPlugin, ...]

    @classmethod
    def resolve(cls, enabled: Callable[[str], Sequence[SchedulerPlugin]]) -> ExtensionPoints:
        """Take, at each extension point, those of the enabled plugins that implement it.

        `enabled` returns the plugins that are enabled at the extension point of this name in the configuration.
        """
        return cls(
            pre_enqueue=tuple(plugin for plugin in enabled("preEnqueue") if isinstance(plugin, PreEnqueuePlugin)),
            queue_sort=tuple(plugin for plugin in enabled("queueSort") if isinstance(plugin, QueueSortPlugin)),
            pre_filter=tuple(plugin for plugin in enabled("preFilter") if isinstance(plugin, PreFilterPlugin)),
            filter=tuple(plugin for plugin in enabled("filter") if isinstance(plugin, FilterPlugin)),
            post_filter=tuple(plugin for plugin in enabled("postFilter") if isinstance(plugin, PostFilterPlugin)),
            pod_group_post_filter=tuple(
                plugin for plugin in enabled("podGroupPostFilter") if isinstance(plugin, PostFilterPlugin)
            ),
            pre_score=tuple(plugin for plugin in enabled("preScore") if isinstance(plugin, PreScorePlugin)),
            score=tuple(plugin for plugin in enabled("score") if isinstance(plugin, ScorePlugin)),
            reserve=tuple(plugin for plugin in enabled("reserve") if isinstance(plugin, ReservePlugin)),
            permit=tuple(plugin for plugin in enabled("permit") if isinstance(plugin, PermitPlugin)),
            pre_bind=tuple(plugin for plugin in enabled("preBind") if isinstance(plugin, PreBindPlugin)),
            bind=tuple(plugin for plugin in enabled("bind") if isinstance(plugin, BindPlugin)),
            post_bind=tuple(plugin for plugin in enabled("postBind") if isinstance(plugin, PostBindPlugin)),
        )

    def get_plugins_at(self, point: str) -> Sequence[SchedulerPlugin]:
        """Return the plugins at the extension point of this name in the configuration."""
        plugins: Sequence[SchedulerPlugin] = getattr(self, POINTS[point])
        return plugins

    def plugins(self) -> list[SchedulerPlugin]:
        """Return every plugin once, in the order of the extension points."""
        by_name = {plugin.name: plugin for point in POINTS for plugin in self.get_plugins_at(point)}
        return list(by_name.values())


POINTS: Mapping[str, str] = {
    "".join([head, *(word.capitalize() for word in words)]): field.name
    for field in fields(ExtensionPoints)
    for head, *words in [field.name.split("_")]
}
"""The extension points as named in the configuration (`preFilter`), with the fields of ExtensionPoints."""


def check_spelling(plugin: SchedulerPlugin) -> None:
    """Raise MisspeltExtensionPoint if a method of the plugin looks like a misspelt extension point, or like a misspelt
    method of a base class of the framework."""
    method_names = METHODS.union(
        *(_public_methods(base) for base in type(plugin).__mro__ if base.__module__ in _BASE_MODULES)
    )
    for method in _public_methods(type(plugin)):
        if method not in method_names and (similar := get_close_matches(method, method_names, n=1, cutoff=0.8)):
            raise MisspeltExtensionPoint(
                f"plugin {plugin.name!r} has a method {method!r}, which is not an extension point; "
                f"did you mean {similar[0]!r}?"
            )


def _public_methods(plugin: type) -> Iterator[str]:
    for name in dir(plugin):
        if not name.startswith("_") and callable(getattr(plugin, name)):
            yield name
