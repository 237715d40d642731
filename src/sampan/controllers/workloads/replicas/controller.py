"""The controller: claims pods, creates or deletes the difference, and writes the status."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from sampan.api.semantics.owners import controller_of
from sampan.api.semantics.pods import is_active, is_terminating
from sampan.api.types.core_v1 import Pod
from sampan.controllers.descriptor import Parts
from sampan.controllers.ownership import (
    ClaimControl,
    Expectations,
    OwnerIndex,
    OwnWrites,
    PodControl,
    candidates,
    claim,
    slow_start,
)
from sampan.controllers.ownership.batches import FIRST, all_at_once
from sampan.controllers.ownership.candidates import by_controller_or_orphan
from sampan.controllers.ownership.pods import is_namespace_ending
from sampan.controllers.workloads.replicas.kind import ReplicaKind, wanted_replicas
from sampan.controllers.workloads.replicas.plan import NOTHING, Plan, plan
from sampan.controllers.workloads.replicas.status import next_look_s, status_of
from sampan.machinery import errors
from sampan.machinery.client import resource_of
from sampan.machinery.controller import Watch
from sampan.machinery.object_key import Key, key_of


class ReplicaController:
    def __init__(self, *, kind: ReplicaKind, parts: Parts) -> None:
        self.name, self._kind, self._clock = kind.name, kind, parts.clock
        client = parts.client_for(kind.name)
        owners, pods = parts.informers.of(kind.object_type), parts.informers.of(Pod)
        self._owners, self._pods = owners.lister, pods.lister
        self._client = client.of(kind.object_type)
        self._control = PodControl(client=client, events=parts.events_for(kind.name, kind.source))
        self._claims = ClaimControl(owners=self._client, objects=client.of(Pod))
        self._expectations, self._writes = Expectations(clock=parts.clock), OwnWrites()
        self._expectations.follow(pods, owners)
        owners.subscribe(self._forget)
        index: OwnerIndex[Any] = OwnerIndex(owners=self._owners, kind=kind.kind, selector=kind.selector)
        self._pods.add_index(by_controller_or_orphan)
        self.watches = (
            Watch(resource_of(kind.object_type), lambda owner: (key_of(owner),)),
            Watch(resource_of(Pod), index.keys),
        )

    async def reconcile(self, key: Key) -> float | None:
        owner = self._owners.by_key(key)
        if owner is None or self._writes.is_stale(owner):
            return None
        selector = self._kind.selector(owner)
        if selector.is_nothing:
            return None
        pods = candidates(self._pods, owner)
        active = await claim(owner, selector, [pod for pod in pods if is_active(pod)], self._claims)
        has_changed, failure = await self._manage(owner, active)
        if has_changed and failure is None:
            # The watch events of the pods trigger the next sync.
            return self._expectations.expires_in(owner.metadata.uid)
        now = self._clock.now()
        terminating = sum(1 for pod in pods if self._is_leaving(owner, pod) and selector.matches(pod.metadata.labels))
        await self._tell(owner, status_of(self._kind, owner, active, terminating, failure, now))
        if failure is not None:
            raise failure
        return _soonest(
            next_look_s(active, owner.spec.minReadySeconds, now), self._expectations.expires_in(owner.metadata.uid)
        )

    def _is_leaving(self, owner: Any, pod: Pod) -> bool:
        if not is_terminating(pod):
            return False
        reference = controller_of(pod)
        return reference is not None and reference.uid == owner.metadata.uid

    async def _manage(self, owner: Any, active: Sequence[Pod]) -> tuple[bool, Exception | None]:
        """Create or delete pods. Return whether that happened, and the first error."""
        todo = self._plan(owner, active)
        if todo.creations:
            return await self._create(owner, todo.creations)
        if todo.deletions:
            return await self._delete(owner, todo.deletions)
        return False, None

    def _plan(self, owner: Any, active: Sequence[Pod]) -> Plan:
        if owner.metadata.deletionTimestamp is not None or not self._expectations.satisfied(owner.metadata.uid):
            return NOTHING
        return plan(active, wanted_replicas(owner), lambda: self._related(owner), self._clock.now())

    def _related(self, owner: Any) -> Iterable[Pod]:
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
        self._expectations.created(uid, count - outcome.successes)
        failure = outcome.error
        if failure is not None and is_namespace_ending(failure):
            failure = None
        return outcome.successes > 0, failure

    async def _delete(self, owner: Any, pods: Sequence[Pod]) -> tuple[bool, Exception | None]:
        uid = owner.metadata.uid
        self._expectations.expect(uid, deletions=[pod.metadata.uid for pod in pods])

        async def delete(at: int) -> None:
            try:
                await self._control.delete(pods[at], owner)
            except Exception as error:
                self._expectations.deleted(uid, pods[at].metadata.uid)
                if not isinstance(error, errors.NotFound):
                    raise

        return True, await all_at_once(len(pods), delete)

    async def _tell(self, owner: Any, status: Any) -> None:
        if status == owner.status:
            return
        try:
            self._writes.wrote(await self._client.update_status(msgspec.structs.replace(owner, status=status)))
        except errors.NotFound:
            return  # The owner was deleted meanwhile.

    def _forget(self, old: Any | None, new: Any | None) -> None:
        if new is None and old is not None:
            self._writes.forget(old.metadata.uid)


def _soonest(*waits: float | None) -> float | None:
    return min((wait for wait in waits if wait is not None), default=None)
