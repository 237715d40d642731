"""taint-eviction-controller, which evicts pods from nodes with NoExecute taints that they do not tolerate.

The key is a node. `plan` decides which of its pods are evicted now, which later (tolerationSeconds), and which
evictions are cancelled.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sampan.api.semantics.conditions import TRUE
from sampan.api.semantics.taints import NO_EXECUTE
from sampan.api.types.core_v1 import Node, ObjectReference, Pod, Taint
from sampan.controllers.fan_out import for_each, raise_first
from sampan.controllers.nodes.pods import DISRUPTION_TARGET, by_node, pod_condition_patch
from sampan.controllers.nodes.taints import toleration_s
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.decisions import MAX_NOTES, note_decision
from sampan.machinery.events import NORMAL, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

REASON = "TaintManagerEviction"


@dataclass(frozen=True, slots=True)
class ScheduledEviction:
    uid: str
    """The UID of the pod, which distinguishes it from a later pod of the same name."""
    at: float
    is_done: bool = False


Evictions = Mapping[NamespacedName, ScheduledEviction]


@dataclass(slots=True)
class EvictionPlan:
    evictions: dict[NamespacedName, ScheduledEviction] = field(default_factory=dict)
    """All scheduled evictions, including those due now."""
    cancelled: list[NamespacedName] = field(default_factory=list)

    def due(self, now: float) -> list[NamespacedName]:
        return [key for key, eviction in self.evictions.items() if eviction.at <= now and not eviction.is_done]

    def next_in_s(self, now: float) -> float | None:
        waits = [eviction.at - now for eviction in self.evictions.values() if not eviction.is_done]
        return max(min(waits), 0) if waits else None


def plan(taints: Sequence[Taint], pods: Sequence[Pod], evictions: Evictions, now: float) -> EvictionPlan:
    """Plan the evictions from a node with these NoExecute taints.

    A scheduled eviction keeps its time while the pod tolerates the taints temporarily. Cancellations are reported
    unless the eviction was due or done.
    """
    result = EvictionPlan()
    for pod in pods:
        key = key_of(pod)
        old, seconds = evictions.get(key), toleration_s(taints, pod.spec.tolerations)
        if not taints:
            continue
        if old is not None and old.uid == pod.metadata.uid and (old.is_done or seconds):
            result.evictions[key] = old
        elif seconds is not None:
            result.evictions[key] = ScheduledEviction(pod.metadata.uid, now + seconds)
    stays = {key for key, eviction in result.evictions.items() if eviction == evictions.get(key)}
    result.cancelled = [key for key, old in evictions.items() if key not in stays and not old.is_done and old.at > now]
    return result


class TaintEvictionController:
    name = "taint-eviction-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, events: EventRecorder, clock: Clock) -> None:
        self._client_pods, self._events, self._clock = client.for_kind(Pod), events, clock
        self._nodes = informers.for_kind(Node).lister
        self._pods = informers.for_kind(Pod).lister
        self._pods.add_index(by_node)
        self._known: dict[str, dict[NamespacedName, ScheduledEviction]] = {}
        """Evictions by node: for nodes with NoExecute taints, and for deleted nodes with evictions still scheduled."""
        self.watches = (
            Watch(resource_of(Node), self._tainted_node_keys),
            Watch(resource_of(Pod), self._tainted_node_keys_of_pod),
        )

    def _tainted_node_keys(self, node: Node) -> Iterable[Hashable]:
        is_tainted = any(taint.effect == NO_EXECUTE for taint in node.spec.taints)
        return (node.metadata.name,) if is_tainted or node.metadata.name in self._known else ()

    def _tainted_node_keys_of_pod(self, pod: Pod) -> Iterable[Hashable]:
        return (pod.spec.nodeName,) if pod.spec.nodeName in self._known else ()

    async def reconcile(self, key: str) -> float | None:
        node, now = self._nodes.get(key), self._clock.now()
        previous = self._known.get(key, {})
        changes = self._plan(key, node, previous, now)
        for cancelled in changes.cancelled:
            self._record_event(cancelled, f"Cancelling deletion of Pod {cancelled}")
        is_tainted = node is not None and any(taint.effect == NO_EXECUTE for taint in node.spec.taints)
        if is_tainted or changes.evictions:
            self._known[key] = changes.evictions
        else:
            self._known.pop(key, None)
        if due := changes.due(now):
            pods = ", ".join(map(str, due[:MAX_NOTES]))
            note_decision("pods that tolerate its NoExecute taints", f"{len(due)} that do not", f"evict {pods}")
        raise_first(await for_each(due, lambda pod: self._evict(pod, changes.evictions)))
        return changes.next_in_s(now)

    def _plan(self, name: str, node: Node | None, evictions: Evictions, now: float) -> EvictionPlan:
        pods = self._pods.find(by_node, name)
        if node is not None:
            return plan([taint for taint in node.spec.taints if taint.effect == NO_EXECUTE], pods, evictions, now)
        present = {key_of(pod) for pod in pods}
        return EvictionPlan({key: eviction for key, eviction in evictions.items() if key in present})

    async def _evict(self, key: NamespacedName, evictions: dict[NamespacedName, ScheduledEviction]) -> None:
        self._record_event(key, f"Marking for deletion Pod {key}")
        try:
            pod = await self._client_pods.get(key.name, key.namespace)
            patch = pod_condition_patch(
                pod,
                DISRUPTION_TARGET,
                self._clock.now(),
                status=TRUE,
                reason="DeletionByTaintManager",
                message="Taint manager: deleting due to NoExecute taint",
                observedGeneration=pod.metadata.generation,
            )
            if patch is not None:
                await self._client_pods.patch(key.name, patch, key.namespace, subresource="status")
            await self._client_pods.delete(key.name, key.namespace)
        except errors.NotFound:
            pass
        evictions[key] = replace(evictions[key], is_done=True)

    def _record_event(self, key: NamespacedName, message: str) -> None:
        reference = ObjectReference(kind="Pod", apiVersion="v1", name=key.name, namespace=key.namespace)
        self._events.event(reference, NORMAL, REASON, message)
