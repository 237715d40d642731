"""daemonset-controller, which runs one pod of a DaemonSet on each eligible node: it reads the caches, carries out the
decisions and writes the status."""

from collections.abc import Sequence

from msgspec.structs import replace

from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import Selector
from sampan.api.semantics.owners import is_controlled_by
from sampan.api.semantics.pods import FAILED, available_in_s
from sampan.api.types.apps_v1 import ControllerRevision, DaemonSet
from sampan.api.types.core_v1 import Node, Pod
from sampan.controllers.namespace_phase import is_namespace_terminating
from sampan.controllers.ownership import (
    ClaimControl,
    Expectations,
    OwnerIndex,
    PodControl,
    candidates,
    claim,
    slow_start,
)
from sampan.controllers.ownership.pods import FIRST, ReplacementBackoff, run_concurrently
from sampan.controllers.ownership.revisions import RevisionHistory
from sampan.controllers.workloads.daemonset.history import DaemonHistory, RevisionKeys
from sampan.controllers.workloads.daemonset.nodes import (
    DaemonPlacements,
    daemon_template,
    pin_to_node,
    template_generation,
)
from sampan.controllers.workloads.daemonset.rollout import manage, plan_rolling_update
from sampan.controllers.workloads.daemonset.view import (
    ROLLING_UPDATE,
    DaemonPodChanges,
    DaemonSetView,
    compute_status,
    group_by_node,
    is_status_changed,
)
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch, min_delay
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.decisions import note_decision
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

BURST = 250
"""The maximum number of pods created, and of pods deleted, in one sync."""


def _selector(daemon_set: DaemonSet) -> Selector:
    return selector_of(daemon_set.spec.selector)


class DaemonSetController:
    name = "daemonset-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock, events: EventRecorder) -> None:
        self._clock, self._client = clock, client.for_kind(DaemonSet)
        self._sets, self._pods = informers.for_kind(DaemonSet).lister, informers.for_kind(Pod).lister
        self._nodes = informers.for_kind(Node).lister
        self._events = events
        self._claiming = ClaimControl(owners=client.for_kind(DaemonSet), objects=client.for_kind(Pod))
        revisions = informers.for_kind(ControllerRevision).lister
        history = RevisionHistory(client=client, owners=DaemonSet, lister=revisions)
        self._history = DaemonHistory(client=client, history=history)
        self._pod_control = PodControl(client=client, events=self._events)
        self._placements = DaemonPlacements(sets=self._sets, nodes=self._nodes)
        self._failures, self._writes = ReplacementBackoff(), OwnWrites()
        self._expectations = Expectations(clock=clock)
        self._expectations.follow(informers.for_kind(Pod), informers.for_kind(DaemonSet))
        self._writes.follow(informers.for_kind(DaemonSet))
        owners = OwnerIndex(owners=self._sets, kind="DaemonSet", selector=_selector)
        self.watches = (
            Watch(resource_of(DaemonSet), lambda daemon_set: (key_of(daemon_set),)),
            Watch(resource_of(ControllerRevision), RevisionKeys(owners=owners, field_sets=revisions).keys),
            Watch(resource_of(Pod), owners.keys),
            Watch(resource_of(Node), self._placements.keys),
        )

    async def reconcile(self, key: NamespacedName) -> float | None:
        daemon_set = self._sets.get_by_key(key)
        if daemon_set is None:
            self._placements.forget(key)
            return None
        if self._writes.is_stale(daemon_set) or daemon_set.metadata.deletionTimestamp is not None:
            return None
        selector = _selector(daemon_set)
        if selector.is_everything:
            message = "This daemon set is selecting all pods. A non-empty selector is required."
            self._events.event(daemon_set, WARNING, "SelectingAll", message)
            return None
        return await self._sync(daemon_set, selector)

    async def _sync(self, daemon_set: DaemonSet, selector: Selector) -> float | None:
        pods = await claim(daemon_set, selector, candidates(self._pods, daemon_set), self._claiming)
        revisions = await self._history.find(daemon_set, selector, pods)
        uid = daemon_set.metadata.uid
        view = self._view(daemon_set, pods, revisions.hash)
        if not self._expectations.is_satisfied(uid):
            return min_delay(await self._report(view, has_acted=False), self._expectations.expires_in(uid))
        changes = self._decide(view)
        if changes:
            action = f"create {len(changes.nodes)}, delete {len(changes.pods)}"
            note_decision("1 pod on each eligible node", f"{len(pods)} pods on {len(view.nodes)} nodes", action)
        failure = await self._carry_out(view, changes)
        if failure is None:
            await self._history.truncate(daemon_set, revisions.old, pods)
        if changes:  # If all went well, the cache shows the new pods by now.
            owned = [pod for pod in candidates(self._pods, daemon_set) if is_controlled_by(pod, daemon_set)]
            view = self._view(daemon_set, owned, revisions.hash)
        available_s = await self._report(view, has_acted=True)
        if failure is not None:
            raise failure
        return min_delay(changes.again_s, available_s)

    def _view(self, daemon_set: DaemonSet, pods: Sequence[Pod], hash: str) -> DaemonSetView:
        nodes, placement = self._nodes.list(), self._placements.get_placement(daemon_set)
        return DaemonSetView(
            daemon_set=daemon_set,
            nodes=nodes,
            placement=placement,
            pods=group_by_node(pods),
            hash=hash,
            generation=template_generation(daemon_set),
            now=self._clock.now(),
        )

    def _decide(self, view: DaemonSetView) -> DaemonPodChanges:
        """Return the pods to create and to delete. A rolling update continues only once every node has its pod."""
        changes = manage(
            view, lambda node: self._failures.remaining_s(_failure_key(view, node), self._clock.monotonic())
        )
        if changes or view.daemon_set.spec.updateStrategy.type != ROLLING_UPDATE:
            return changes
        update = plan_rolling_update(view)
        update.again_s = changes.again_s
        return update

    # -- effects -----------------------------------------------------------------------------------------------------

    def _record_terminated_pods(self, view: DaemonSetView, changes: DaemonPodChanges) -> None:
        for pod, node in changes.ended:
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            if pod.status.phase == FAILED:
                self._failures.note(_failure_key(view, node), self._clock.monotonic())
                message = f"Found failed daemon pod {name} on node {node}, will try to kill it"
                self._events.event(view.daemon_set, WARNING, "FailedDaemonPod", message)
            else:
                message = f"Found succeeded daemon pod {name} on node {node}, will try to delete it"
                self._events.event(view.daemon_set, NORMAL, "SucceededDaemonPod", message)

    async def _carry_out(self, view: DaemonSetView, changes: DaemonPodChanges) -> Exception | None:
        self._record_terminated_pods(view, changes)
        nodes, pods = changes.nodes[:BURST], changes.pods[:BURST]
        if not nodes and not pods:
            return None
        self._expectations.expect(view.daemon_set.metadata.uid, len(nodes), [pod.metadata.uid for pod in pods])
        failure = await self._create(view, nodes) if nodes else None
        return failure or await self._delete(view.daemon_set, pods)

    async def _create(self, view: DaemonSetView, nodes: Sequence[str]) -> Exception | None:
        daemon_set = view.daemon_set
        template = daemon_template(daemon_set, view.hash)

        async def create(index: int) -> None:
            spec = pin_to_node(template.spec, nodes[index])
            await self._pod_control.create(template, daemon_set.metadata.namespace, daemon_set, spec=spec)

        outcome = await slow_start(len(nodes), FIRST, create)
        self._expectations.lower_creations(daemon_set.metadata.uid, len(nodes) - outcome.successes)
        return None if outcome.error is None or is_namespace_terminating(outcome.error) else outcome.error

    async def _delete(self, daemon_set: DaemonSet, pods: Sequence[Pod]) -> Exception | None:
        async def delete(index: int) -> None:
            try:
                await self._pod_control.delete(pods[index], daemon_set)
            except Exception as error:
                self._expectations.drop_deletion(daemon_set.metadata.uid, pods[index].metadata.uid)
                if not isinstance(error, errors.NotFound):
                    raise

        return await run_concurrently(len(pods), delete)

    async def _report(self, view: DaemonSetView, *, has_acted: bool) -> float | None:
        """Write the status; return the seconds until a ready pod becomes available."""
        daemon_set, status = view.daemon_set, compute_status(view, has_acted=has_acted)
        if is_status_changed(status, daemon_set.status, daemon_set.metadata.generation):
            try:
                self._writes.record_write(await self._client.update_status(replace(daemon_set, status=status)))
            except errors.NotFound:
                return None
        if not (minimum := daemon_set.spec.minReadySeconds):
            return None
        pods = (pod for on_node in view.pods.values() for pod in on_node)
        return min_delay(*(available_in_s(pod, minimum, view.now) for pod in pods))


def _failure_key(view: DaemonSetView, node: str) -> str:
    daemon_set = view.daemon_set
    return f"{daemon_set.metadata.uid}/{daemon_set.status.observedGeneration}/{node}"
