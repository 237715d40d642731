"""node-lifecycle-controller, which detects unreachable nodes and taints nodes according to their conditions.

All nodes are checked every few seconds. The conditions of a node without a heartbeat during the grace period become
Unknown, its pods are marked not ready, and it is queued in its zone for the NoExecute taint, which is applied at a
limited rate. A node that recovers leaves the queue. NoSchedule taints follow the conditions of a node immediately.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sampan.api.semantics.conditions import FALSE, READY, TRUE, UNKNOWN, find_condition
from sampan.api.semantics.taints import NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE
from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Node, ObjectReference, Pod
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.fan_out import try_each
from sampan.controllers.nodes import health
from sampan.controllers.nodes.health import ready_status
from sampan.controllers.nodes.pods import by_node, node_name, pod_condition_patch
from sampan.controllers.nodes.taints import TaintWriter, diff_scheduling_taints, has_taint
from sampan.controllers.nodes.zones import EXCLUDED, EvictionRates, ZoneQueue, Zones, ZoneTransition, zone_of
from sampan.host.clock import Clock, wall_offset
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, PatchType, Selection, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import key_of

log = logging.getLogger(__name__)

MONITOR = ""
"""The key of the periodic check of all nodes; every other key is the name of a node."""
_NODE_LEASES = Selection(namespace="kube-node-lease")
_MARK_ATTEMPTS = 5
_RETRY_S = 0.1
_DEPRECATED_LABELS: Final[Mapping[str, str]] = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}


def missing_deprecated_labels(node: Node) -> dict[str, str]:
    """Return the deprecated labels that are absent or differ."""
    present = node.metadata.labels
    return {
        old: present[new]
        for new, old in _DEPRECATED_LABELS.items()
        if new in present and present.get(old) != present[new]
    }


@dataclass(slots=True)
class _NodeCheck:
    """The state of a node in one check."""

    node: Node
    before: str
    """The status of the Ready condition before the check."""
    status: str
    """The status of the Ready condition after the check; empty if the condition was never posted."""


class NodeLifecycleController:
    name = "node-lifecycle-controller"
    initial_keys = (MONITOR,)

    def __init__(
        self,
        *,
        client: Client,
        informers: InformerFactory,
        events: EventRecorder,
        clock: Clock,
        config: ControllerConfig,
    ) -> None:
        self._client, self._events, self._clock, self._config = client, events, clock, config
        self._nodes = informers.for_kind(Node).lister
        self._leases = informers.for_kind(Lease, _NODE_LEASES).lister
        self._pods = informers.for_kind(Pod).lister
        self._pods.add_index(by_node)
        self._taint_writer = TaintWriter(client=client, clock=clock)
        self._zones = Zones(_rates(config))
        self._known: dict[str, str] = {}
        """UIDs by name of the nodes at the last check."""
        self._health: dict[str, health.NodeHealth] = {}
        self._marked: dict[str, set[str]] = {}
        """For each node that is not ready, the UIDs of the pods that need no marking as not ready: they were marked
        before, or the node was already not ready when this controller first saw it. If a live kubelet later posts
        another status of a pod, that status is not overwritten."""
        self._next_look = 0.0
        self._newer_leases = OwnWrites()
        """Leases on the server that the cache does not show yet. Until it does, no node is checked."""
        self._newer_leases.follow(informers.for_kind(Lease, _NODE_LEASES))
        self._has_circuit_breaker = config.feature_gates.is_enabled("NodeControllerLeaseCircuitBreaker")
        self.watches = (
            Watch(resource_of(Node), node_name),
            Watch(resource_of(Lease), selection=_NODE_LEASES),
            Watch(resource_of(Pod)),
        )

    async def reconcile(self, key: str) -> float | None:
        if key == MONITOR:
            return await self._monitor()
        node = self._nodes.get(key)
        if node is not None:
            await self._follow_conditions(node)
        return None

    async def _follow_conditions(self, node: Node) -> None:
        add, remove = diff_scheduling_taints(node)
        if add or remove:
            await self._taint_writer.change(node, NO_SCHEDULE, add=add, remove=remove)
        if missing := missing_deprecated_labels(node):
            patch = {"metadata": {"labels": missing}}
            await self._client.for_kind(Node).patch(node.metadata.name, patch, type=PatchType.MERGE)

    # -- periodic check ----------------------------------------------------------------------------------------------

    async def _monitor(self) -> float:
        now = self._clock.monotonic()
        if now >= self._next_look:
            self._next_look = now + self._config.node_monitor_period_s
            await self._monitor_nodes(now)
        waits = [await self._taint_next(queue, now) for queue in self._zones.queues()]
        return min(self._next_look - now, *(wait for wait in waits if wait is not None), 1e9)

    async def _monitor_nodes(self, now: float) -> None:
        nodes = list(self._nodes)
        self._track_nodes(nodes)
        observations: list[_NodeCheck] = []
        for node in nodes:
            if self._newer_leases.is_pending:
                log.warning("%s: the cached leases are stale; checking no more nodes until the next sync", self.name)
                break
            if not self._update_health(node, now):
                status = ready_status(node)
                observations.append(_NodeCheck(node, status, status))
            elif (marked := await self._mark(node, now)) is not None:
                observations.append(marked)
        tally: dict[tuple[str, str], list[bool]] = {}
        for observation in observations:
            if EXCLUDED not in observation.node.metadata.labels:
                tally.setdefault(zone_of(observation.node), []).append(observation.status == TRUE)
        for check, error in await try_each(filter(self._needs_processing, observations), self._process_node):
            name = check.node.metadata.name
            log.warning("%s: cannot process node %s: %s; retrying at the next sync", self.name, name, error)
        await self._apply_transition(self._zones.update_states(tally, now), nodes, now)

    def _track_nodes(self, nodes: Sequence[Node]) -> None:
        present = {node.metadata.name: node.metadata.uid for node in nodes}
        for name, uid in present.items():
            if self._known.get(name) != uid:
                self._forget(name)
            if name not in self._known:
                self._record_event(
                    name, uid, "RegisteredNode", f"Node {name} event: Registered Node {name} in Controller"
                )
        for name, uid in self._known.items():
            if name not in present:
                self._record_event(
                    name, uid, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller"
                )
                self._forget(name)
        self._known = present

    def _forget(self, name: str) -> None:
        self._health.pop(name, None)
        self._marked.pop(name, None)
        self._zones.remove(name)

    async def _mark(self, node: Node, now: float) -> _NodeCheck | None:
        """Set the conditions of an unresponsive node to Unknown, unless a heartbeat has arrived meanwhile.

        Return None if that failed; the node is then skipped in this check.
        """
        before = ready_status(node)
        for _ in range(_MARK_ATTEMPTS):
            if not await self._is_lease_current(node.metadata.name):
                return None
            try:
                marked = health.mark_unknown(node, self._clock.now())
                written = await self._client.for_kind(Node).update_status(marked) if marked is not None else node
                return _NodeCheck(written, before, UNKNOWN)
            except errors.NotFound:
                return None
            except errors.Conflict:
                fresh = await self._fetch_node(node.metadata.name)
            if fresh is None:
                return None
            if not self._update_health(fresh, now):
                return _NodeCheck(fresh, before, ready_status(fresh))
            node = fresh
        return None

    async def _is_lease_current(self, name: str) -> bool:
        """Whether the cached lease of an unresponsive node is the one on the server.

        If the cache lags behind, healthy nodes look unresponsive; a lease that cannot be read proves nothing.
        """
        if not self._has_circuit_breaker:
            return True
        try:
            lease = await self._client.for_kind(Lease).get(name, _NODE_LEASES.namespace)
        except errors.NotFound:
            return True
        except (errors.ApiError, ConnectionFailed) as error:
            log.warning("%s: cannot read the lease of node %s: %s; retrying at the next sync", self.name, name, error)
            return False
        cached = self._leases.get(name, _NODE_LEASES.namespace)
        if cached is not None and cached.metadata.resourceVersion == lease.metadata.resourceVersion:
            return True
        if cached is None or int(cached.metadata.resourceVersion) < int(lease.metadata.resourceVersion):
            self._newer_leases.record_write(lease)
        return False

    def _update_health(self, node: Node, now: float) -> bool:
        """Record the heartbeats of the node. Return whether they have been missing for longer than the grace period."""
        name, config = node.metadata.name, self._config
        lease = self._leases.get(name, _NODE_LEASES.namespace)
        node_health = health.observe(self._health.get(name), node, lease, now=now, wall_offset=wall_offset(self._clock))
        self._health[name] = node_health
        grace_s = config.node_monitor_grace_period_s if node_health.has_ready else config.node_startup_grace_period_s
        return now > node_health.seen_at + grace_s

    async def _fetch_node(self, name: str) -> Node | None:
        """Return the node from the server, as it may have just posted its status."""
        try:
            return await self._client.for_kind(Node).get(name)
        except errors.NotFound:
            return None

    def _needs_processing(self, check: _NodeCheck) -> bool:
        """Whether the node needs processing. A node that stayed healthy needs none, nor does a node that has not posted
        its first status."""
        is_well = check.status == TRUE and not check.node.spec.taints and check.node.metadata.name not in self._marked
        return bool(check.status) and not is_well

    # -- processing of a node ----------------------------------------------------------------------------------------

    async def _process_node(self, check: _NodeCheck) -> None:
        node, name = check.node, check.node.metadata.name
        await self._queue_for_taint(node, check.status)
        if check.status == TRUE:
            self._marked.pop(name, None)
            return
        if name not in self._marked:
            came_so = check.before != TRUE
            self._marked[name] = {pod.metadata.uid for pod in self._pods.find(by_node, name)} if came_so else set()
        if check.before == TRUE:
            self._record_event(name, node.metadata.uid, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        await self._mark_pods(name)

    async def _queue_for_taint(self, node: Node, status: str) -> None:
        queue, name = self._zones.queue(node, self._clock.monotonic()), node.metadata.name
        if status not in (FALSE, UNKNOWN):
            queue.remove(name)
            await self._taint_writer.change(node, NO_EXECUTE, remove=(NOT_READY, UNREACHABLE))
            return
        taint, other = _select_no_execute_taints(status)
        if has_taint(node.spec.taints, other, NO_EXECUTE):
            await self._taint_writer.change(node, NO_EXECUTE, add=(taint,), remove=(other,))
        elif has_taint(node.spec.taints, taint, NO_EXECUTE):
            queue.remove(name)
        else:
            queue.requeue(name)

    async def _mark_pods(self, name: str) -> None:
        done = self._marked[name]

        async def mark(pod: Pod) -> None:
            await self._mark_pod(pod)
            done.add(pod.metadata.uid)

        waiting = [pod for pod in self._pods.find(by_node, name) if pod.metadata.uid not in done]
        for pod, error in await try_each(waiting, mark):
            text = "%s: cannot mark pod %s of node %s as not ready: %s; retrying at the next sync"
            log.warning(text, self.name, key_of(pod), name, error)

    async def _mark_pod(self, pod: Pod) -> None:
        if find_condition(pod.status.conditions, READY) is None:
            return
        patch = pod_condition_patch(pod, READY, self._clock.now(), status=FALSE)
        if patch is None:
            return
        try:
            meta = pod.metadata
            await self._client.for_kind(Pod).patch(meta.name, patch, meta.namespace, subresource="status")
        except errors.NotFound:
            return
        self._events.event(pod, WARNING, "NodeNotReady", "Node is not ready")

    async def _apply_transition(self, change: ZoneTransition, nodes: Sequence[Node], now: float) -> None:
        if change is ZoneTransition.LOST_ALL:
            log.info("all nodes are NotReady: stopped evictions until a node becomes Ready")
            for node in nodes:
                self._zones.queue(node, now).remove(node.metadata.name)
                await self._taint_writer.change(node, NO_EXECUTE, remove=(NOT_READY, UNREACHABLE))
        elif change is ZoneTransition.FOUND_SOME:
            ready = next((node.metadata.name for node in nodes if ready_status(node) == TRUE), "")
            log.info("node %s is Ready again: resumed evictions", ready)
            for name, node_health in self._health.items():
                self._health[name] = health.with_heartbeat(node_health, now)

    async def _taint_next(self, queue: ZoneQueue, now: float) -> float | None:
        """Taint the nodes that the rate limit allows; return the seconds until the next one."""
        while (name := queue.take(now)) is not None:
            node = self._nodes.get(name)
            if node is None or (status := ready_status(node)) not in (FALSE, UNKNOWN):
                continue
            taint, other = _select_no_execute_taints(status)
            try:
                await self._taint_writer.change(node, NO_EXECUTE, add=(taint,), remove=(other,))
            except errors.ApiError as error:
                log.warning("%s: cannot taint node %s: %s", self.name, name, error)
                queue.requeue(name)
        wait_s = queue.next_in_s(now)
        return max(wait_s, _RETRY_S) if wait_s is not None else None

    def _record_event(self, name: str, uid: str, reason: str, message: str) -> None:
        reference = ObjectReference(kind="Node", apiVersion="v1", name=name, uid=uid)
        self._events.event(reference, NORMAL, reason, message)


def _select_no_execute_taints(status: str) -> tuple[str, str]:
    """Return the NoExecute taint to add for this status of the Ready condition, and the opposite taint, which must be
    removed."""
    return (NOT_READY, UNREACHABLE) if status == FALSE else (UNREACHABLE, NOT_READY)


def _rates(config: ControllerConfig) -> EvictionRates:
    return EvictionRates(
        normal=config.node_eviction_rate,
        reduced=config.secondary_node_eviction_rate,
        large=config.large_cluster_size_threshold,
        unhealthy_share=config.unhealthy_zone_threshold,
    )
