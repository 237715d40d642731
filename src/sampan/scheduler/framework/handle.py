"""The handle: what the constructor of a plugin receives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sampan.api.feature_gates import FeatureGates
from sampan.host.clock import Clock
from sampan.machinery.client import Client
from sampan.machinery.informer import Informer, InformerFactory
from sampan.scheduler.cache.node_table import NodeTable
from sampan.scheduler.cache.pod_info import PodInfo
from sampan.scheduler.framework.cluster_event import ClusterEventPublisher, EventResource
from sampan.scheduler.framework.extension_points import SchedulerPlugin

if TYPE_CHECKING:
    from sampan.scheduler.cache.scheduler_cache import Nominator
    from sampan.scheduler.extenders.extender_chain import ExtenderChain
    from sampan.scheduler.framework.waiting_pods import WaitingPods

T = TypeVar("T")


class PublishEvent(Protocol):
    def __call__(self, info: PodInfo, type: str, reason: str, action: str, note: str) -> None: ...


def _publish_nothing(info: PodInfo, type: str, reason: str, action: str, note: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """The object that the constructor of a plugin receives (compare `framework.Handle`)."""

    table: NodeTable
    clock: Clock
    informers: InformerFactory
    client: Client
    nominator: Nominator
    waiting: WaitingPods
    """Pods that wait in Permit; plugins allow or reject them here."""
    cluster_events: ClusterEventPublisher
    """Receives changes that may make pending pods schedulable."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the plugin from the configuration."""
    scheduler_name: str = ""
    feature_gates: FeatureGates = field(default_factory=FeatureGates)
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
        """Return the object of this type that the plugins of all profiles share; the first call makes it."""
        if type not in self._shared:
            self._shared[type] = make()
        shared = self._shared[type]
        assert isinstance(shared, type)
        return shared


PluginFactory = Callable[[Handle], SchedulerPlugin]
