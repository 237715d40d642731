"""replicaset-controller and replicationcontroller-controller, which keep the desired number of pods running.

`ReplicaController` implements both, as they differ only in what `ReplicaKind` lists. `plan` decides on creations and
deletions, and `status_of` computes the status; both are pure. The counterparts are `pkg/controller/replicaset` and
`pkg/controller/replication`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sampan.api.selectors import labels
from sampan.api.selectors.labels import Selector
from sampan.api.semantics.conditions import find_condition, without_condition
from sampan.api.semantics.owners import controller_of
from sampan.api.semantics.pods import available_in_s, is_active, is_available, is_ready, is_terminating
from sampan.api.semantics.workloads import desired_replicas
from sampan.api.types.apps_v1 import ReplicaSet, ReplicaSetCondition
from sampan.api.types.core_v1 import Pod, ReplicationController, ReplicationControllerCondition
from sampan.api.values import times
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
from sampan.controllers.ownership.adoption import by_controller_or_orphan, selector_or_nothing
from sampan.controllers.ownership.deletion_order import pods_to_delete
from sampan.controllers.ownership.pods import BURST, FIRST, run_concurrently
from sampan.host.bounded_cache import BoundedCache
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch, min_delay
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.decisions import note_decision
from sampan.machinery.events import EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaKind:
    object_type: type[Any]
    kind: str
    selector: Callable[[Any], Selector]
    condition: type[Any]
    """The type of the conditions in the status."""
    has_terminating: bool
    """Whether the status counts terminating pods."""


def _replica_set_selector(owner: ReplicaSet) -> Selector:
    return selector_or_nothing(owner.spec.selector)


def _make_selector(pairs: tuple[tuple[str, str], ...]) -> Selector:
    return labels.from_labels(dict(pairs))


_selectors = BoundedCache(_make_selector, max_entries=1024, max_entry_bytes=8 << 10)


def _replication_controller_selector(owner: ReplicationController) -> Selector:
    return _selectors[tuple(owner.spec.selector.items())] if owner.spec.selector else labels.NOTHING


REPLICA_SET = ReplicaKind(
    object_type=ReplicaSet,
    kind="ReplicaSet",
    selector=_replica_set_selector,
    condition=ReplicaSetCondition,
    has_terminating=True,
)
REPLICATION_CONTROLLER = ReplicaKind(
    object_type=ReplicationController,
    kind="ReplicationController",
    selector=_replication_controller_selector,
    condition=ReplicationControllerCondition,
    has_terminating=False,
)


@dataclass(frozen=True, slots=True)
class ReplicaPlan:
    creations: int = 0
    deletions: Sequence[Pod] = ()


EMPTY_PLAN = ReplicaPlan()


def plan(active: Sequence[Pod], desired: int, related: Callable[[], Iterable[Pod]], now: float) -> ReplicaPlan:
    """Return how many pods to create, or which pods to delete. `related` returns the pods whose nodes influence which
    pods are deleted first."""
    surplus = len(active) - desired
    if surplus < 0:
        return ReplicaPlan(creations=min(-surplus, BURST))
    if surplus > 0:
        return ReplicaPlan(deletions=pods_to_delete(active, min(surplus, BURST), related=related(), now=now))
    return EMPTY_PLAN


class ReplicaController:
    """Keeps the desired number of pods of each owner running. A subclass names the kind of the owners."""

    kind: ReplicaKind

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock, events: EventRecorder) -> None:
        self._clock, kind = clock, self.kind
        owners, pods = informers.for_kind(kind.object_type), informers.for_kind(Pod)
        self._owners, self._pods = owners.lister, pods.lister
        self._client = client.for_kind(kind.object_type)
        self._control = PodControl(client=client, events=events)
        self._claims = ClaimControl(owners=self._client, objects=client.for_kind(Pod))
        self._expectations, self._writes = Expectations(clock=clock), OwnWrites()
        self._expectations.follow(pods, owners)
        self._writes.follow(owners)
        index: OwnerIndex[Any] = OwnerIndex(owners=self._owners, kind=kind.kind, selector=kind.selector)
        self._pods.add_index(by_controller_or_orphan)
        self.watches = (
            Watch(resource_of(kind.object_type), lambda owner: (key_of(owner),)),
            Watch(resource_of(Pod), index.keys),
        )

    async def reconcile(self, key: NamespacedName) -> float | None:
        owner = self._owners.get_by_key(key)
        if owner is None or self._writes.is_stale(owner):
            return None
        selector = self.kind.selector(owner)
        if selector.is_nothing:
            return None
        pods = candidates(self._pods, owner)
        active = await claim(owner, selector, [pod for pod in pods if is_active(pod)], self._claims)
        has_changed, failure = await self._manage(owner, active)
        if has_changed and failure is None:
            # The watch events of the pods trigger the next sync.
            return self._expectations.expires_in(owner.metadata.uid)
        now = self._clock.now()
        terminating = sum(
            1 for pod in pods if self._is_terminating(owner, pod) and selector.matches(pod.metadata.labels)
        )
        await self._update_status(owner, status_of(self.kind, owner, active, terminating, failure, now))
        if failure is not None:
            raise failure
        return min_delay(
            next_sync_s(active, owner.spec.minReadySeconds, now), self._expectations.expires_in(owner.metadata.uid)
        )

    def _is_terminating(self, owner: Any, pod: Pod) -> bool:
        if not is_terminating(pod):
            return False
        reference = controller_of(pod)
        return reference is not None and reference.uid == owner.metadata.uid

    async def _manage(self, owner: Any, active: Sequence[Pod]) -> tuple[bool, Exception | None]:
        """Create or delete pods. Return whether that happened, and the first error."""
        todo = self._plan(owner, active)
        if todo.creations or todo.deletions:
            action = f"create {todo.creations}" if todo.creations else f"delete {len(todo.deletions)}"
            note_decision(f"{desired_replicas(owner)} pods", len(active), action)
        if todo.creations:
            return await self._create(owner, todo.creations)
        if todo.deletions:
            return await self._delete(owner, todo.deletions)
        return False, None

    def _plan(self, owner: Any, active: Sequence[Pod]) -> ReplicaPlan:
        if owner.metadata.deletionTimestamp is not None or not self._expectations.is_satisfied(owner.metadata.uid):
            return EMPTY_PLAN
        return plan(active, desired_replicas(owner), lambda: self._list_related_pods(owner), self._clock.now())

    def _list_related_pods(self, owner: Any) -> Iterable[Pod]:
        """Return the pods of all ReplicaSets of the same Deployment."""
        reference = controller_of(owner)
        if reference is None:
            return ()
        siblings = self._owners.find(by_controller_or_orphan, reference.uid)
        return [pod for sibling in siblings for pod in self._pods.find(by_controller_or_orphan, sibling.metadata.uid)]

    async def _create(self, owner: Any, count: int) -> tuple[bool, Exception | None]:
        uid, namespace = owner.metadata.uid, owner.metadata.namespace
        self._expectations.expect(uid, creations=count)
        outcome = await slow_start(count, FIRST, lambda _: self._control.create(owner.spec.template, namespace, owner))
        self._expectations.lower_creations(uid, count - outcome.successes)
        failure = outcome.error
        if failure is not None and is_namespace_terminating(failure):
            failure = None
        return outcome.successes > 0, failure

    async def _delete(self, owner: Any, pods: Sequence[Pod]) -> tuple[bool, Exception | None]:
        uid = owner.metadata.uid
        self._expectations.expect(uid, deletions=[pod.metadata.uid for pod in pods])

        async def delete(index: int) -> None:
            try:
                await self._control.delete(pods[index], owner)
            except Exception as error:
                self._expectations.drop_deletion(uid, pods[index].metadata.uid)
                if not isinstance(error, errors.NotFound):
                    raise

        return True, await run_concurrently(len(pods), delete)

    async def _update_status(self, owner: Any, status: Any) -> None:
        if status == owner.status:
            return
        try:
            self._writes.record_write(await self._client.update_status(msgspec.structs.replace(owner, status=status)))
        except errors.NotFound:
            return  # The owner was deleted meanwhile.


class ReplicaSetController(ReplicaController):
    name = "replicaset-controller"
    kind = REPLICA_SET


class ReplicationControllerController(ReplicaController):
    name = "replicationcontroller-controller"
    kind = REPLICATION_CONTROLLER


REPLICA_FAILURE = "ReplicaFailure"


def status_of(
    kind: ReplicaKind, owner: Any, active: Sequence[Pod], terminating: int, failure: Exception | None, now: float
) -> Any:
    """Return the status. `failure` is the error in creating or deleting pods, if any."""
    labels = owner.spec.template.metadata.labels.items()
    min_s = owner.spec.minReadySeconds
    changes: dict[str, Any] = {
        "replicas": len(active),
        "fullyLabeledReplicas": sum(1 for pod in active if labels <= pod.metadata.labels.items()),
        "readyReplicas": sum(1 for pod in active if is_ready(pod)),
        "availableReplicas": sum(1 for pod in active if is_available(pod, min_s, now)),
        "observedGeneration": owner.metadata.generation,
        "conditions": _conditions(kind, owner, len(active), failure, now),
    }
    if kind.has_terminating:
        changes["terminatingReplicas"] = terminating
    return msgspec.structs.replace(owner.status, **changes)


def _conditions(kind: ReplicaKind, owner: Any, active: int, failure: Exception | None, now: float) -> list[Any]:
    """Return the conditions; an existing ReplicaFailure condition is not updated."""
    present: list[Any] = owner.status.conditions
    has_failed = find_condition(present, REPLICA_FAILURE) is not None
    if (failure is not None) == has_failed:
        return present
    if failure is None:
        return without_condition(present, REPLICA_FAILURE)
    is_short = active < desired_replicas(owner)
    failed = kind.condition(
        type=REPLICA_FAILURE,
        status="True",
        lastTransitionTime=times.format_time(now),
        reason="FailedCreate" if is_short else "FailedDelete",
        message=str(failure) if is_short else f"unable to delete pods: {failure}",
    )
    return [*present, failed]


def next_sync_s(active: Sequence[Pod], min_ready_seconds: int, now: float) -> float | None:
    """Return the seconds until a ready pod becomes available."""
    waits = (available_in_s(pod, min_ready_seconds, now) for pod in active)
    return min((wait for wait in waits if wait is not None), default=None)
