"""pod-garbage-collector-controller, which deletes pods that no other component will delete.

- Terminated pods above a threshold: evicted ones first, then the oldest.
- Pods bound to nodes that no longer exist: after a quarantine and a live check of the node.
- Terminating pods that were never scheduled.
- Terminating pods on nodes with the out-of-service taint.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sampan.api.semantics.conditions import TRUE
from sampan.api.semantics.taints import OUT_OF_SERVICE
from sampan.api.types.core_v1 import Node, Pod
from sampan.controllers.descriptor import ControllerContext
from sampan.controllers.fan_out import for_each, raise_first
from sampan.controllers.nodes.health import ready_status
from sampan.controllers.nodes.pods import DISRUPTION_TARGET, by_node, pod_condition_patch
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, DeleteParameters, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.decisions import note_decision
from sampan.machinery.informer import InformerFactory

PERIOD_S = 20.0
QUARANTINE_S = 40.0
_GC = ""
_OVER, _NOT_OVER = ("Succeeded", "Failed"), ("Pending", "Running", "Unknown")


@dataclass(frozen=True, slots=True)
class PodToDelete:
    pod: Pod
    is_orphan: bool = False
    """Whether the pod's node no longer exists."""


def select_excess_pods(pods: Iterable[Pod], threshold: int) -> list[Pod]:
    """Return the terminated pods above the threshold; a threshold of 0 keeps all."""
    over = [pod for pod in pods if pod.status.phase not in _NOT_OVER]
    if threshold <= 0 or len(over) <= threshold:
        return []
    return sorted(over, key=_order)[: len(over) - threshold]


def select_out_of_service_pods(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> list[Pod]:
    """Return the terminating pods on nodes that are out of service."""
    lost = {name for name, node in nodes.items() if _is_out_of_service(node)}
    return [pod for pod in pods if pod.metadata.deletionTimestamp and pod.spec.nodeName in lost] if lost else []


def select_unscheduled_pods(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.metadata.deletionTimestamp and not pod.spec.nodeName]


def _is_out_of_service(node: Node) -> bool:
    return ready_status(node) != TRUE and any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints)


def _order(pod: Pod) -> tuple[bool, str, str]:
    is_evicted = pod.status.phase == "Failed" and pod.status.reason == "Evicted"
    return (not is_evicted, pod.metadata.creationTimestamp or "", pod.metadata.name)


class PodGarbageCollectorController:
    name = "pod-garbage-collector-controller"
    initial_keys = (_GC,)

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock, threshold: int) -> None:
        self._client, self._clock, self._threshold = client, clock, threshold
        self._pods = informers.for_kind(Pod).lister
        self._pods.add_index(by_node)
        self._nodes = informers.for_kind(Node).lister
        self._missing_since: dict[str, float] = {}
        self.watches = (Watch(resource_of(Pod)), Watch(resource_of(Node)))

    async def reconcile(self, key: str) -> float:
        nodes = {node.metadata.name: node for node in self._nodes}
        pods = list(self._pods)
        removals = [
            PodToDelete(pod)
            for pod in (*select_excess_pods(pods, self._threshold), *select_out_of_service_pods(pods, nodes))
        ]
        removals += [PodToDelete(pod) for pod in select_unscheduled_pods(pods)]
        removals += [PodToDelete(pod, is_orphan=True) for pod in await self._orphans(nodes)]
        if removals:
            need = f"pods of nodes that exist, and {self._threshold} finished ones"
            note_decision(need, f"{len(pods)} pods", f"delete {len(removals)}")
        raise_first(await for_each({removal.pod.metadata.uid: removal for removal in removals}.values(), self._remove))
        return PERIOD_S

    async def _orphans(self, nodes: Mapping[str, Node]) -> Sequence[Pod]:
        now, missing = self._clock.now(), self._list_missing_nodes()
        self._missing_since = {name: self._missing_since.get(name, now) for name in missing}
        due = [name for name, since in self._missing_since.items() if now - since >= QUARANTINE_S]
        deleted = [name for name in due if not await self._is_node_present(name)]
        return [pod for name in deleted for pod in self._pods.find(by_node, name)]

    def _list_missing_nodes(self) -> list[str]:
        """Return the nodes that pods are bound to and that do not exist."""
        return [str(name) for name in self._pods.values(by_node) if self._nodes.get(str(name)) is None]

    async def _is_node_present(self, name: str) -> bool:
        try:
            await self._client.for_kind(Node).get(name)
        except errors.NotFound:
            return False
        return True

    async def _remove(self, doomed: PodToDelete) -> None:
        pod, pods = doomed.pod, self._client.for_kind(Pod)
        meta = pod.metadata
        try:
            if pod.status.phase not in _OVER:
                await pods.patch(meta.name, self._build_failed_patch(doomed), meta.namespace, subresource="status")
            await pods.delete(meta.name, meta.namespace, options=DeleteParameters(grace_period_s=0, uid=meta.uid))
        except errors.NotFound:
            return

    def _build_failed_patch(self, doomed: PodToDelete) -> Mapping[str, Any]:
        pod = doomed.pod
        generation = pod.metadata.generation
        status: dict[str, Any] = {"phase": "Failed", "observedGeneration": generation}
        if doomed.is_orphan:
            patch = pod_condition_patch(
                pod,
                DISRUPTION_TARGET,
                self._clock.now(),
                status=TRUE,
                reason="DeletionByPodGC",
                message="PodGC: node no longer exists",
                observedGeneration=generation,
            )
            status |= patch["status"] if patch is not None else {}
        return {"metadata": {"uid": pod.metadata.uid}, "status": status}


def make(context: ControllerContext) -> PodGarbageCollectorController:
    return context.build(PodGarbageCollectorController, threshold=context.config.terminated_pod_gc_threshold)
