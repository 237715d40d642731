"""deployment-controller, which creates, updates and deletes ReplicaSets, and then writes the status."""

from collections.abc import Hashable, Iterable, Mapping, Sequence

import msgspec

from sampan.api.go_compat.gotext import quote
from sampan.api.semantics.conditions import FALSE
from sampan.api.semantics.owners import controller_of, is_controlled_by
from sampan.api.semantics.workloads import desired_replicas
from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.api.values.times import format_time
from sampan.controllers.namespace_phase import is_namespace_terminating
from sampan.controllers.ownership import ClaimControl, Expectations, OwnerIndex, candidates, claim
from sampan.controllers.ownership.adoption import by_controller_or_orphan, selector_or_nothing
from sampan.controllers.workloads.deployment.decision import RollbackDecision, RolloutStep, decide
from sampan.controllers.workloads.deployment.replicasets import RECREATE, deadline_s, is_same_template, size
from sampan.controllers.workloads.deployment.status import (
    CREATE_ERROR,
    PROGRESSING,
    condition,
    set_deployment_condition,
    with_conditions,
)
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.decisions import note_decision
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

SCALING = "ScalingReplicaSet"


class DeploymentController:
    name = "deployment-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, clock: Clock, events: EventRecorder) -> None:
        self._clock, self._events = clock, events
        deployments, sets = informers.for_kind(Deployment), informers.for_kind(ReplicaSet)
        self._deployments, self._sets = deployments.lister, sets.lister
        self._pods = informers.for_kind(Pod).lister
        self._client, self._set_client = client.for_kind(Deployment), client.for_kind(ReplicaSet)
        self._claims = ClaimControl(owners=self._client, objects=self._set_client)
        self._expectations, self._writes = Expectations(clock=clock), OwnWrites()
        self._expectations.follow(sets, deployments)
        for informer in (deployments, sets):
            self._writes.follow(informer)
        for lister in (self._sets, self._pods):
            lister.add_index(by_controller_or_orphan)
        index: OwnerIndex[Deployment] = OwnerIndex(
            owners=self._deployments,
            kind="Deployment",
            selector=lambda deployment: selector_or_nothing(deployment.spec.selector),
        )
        self.watches = (
            Watch(resource_of(Deployment), lambda deployment: (key_of(deployment),)),
            Watch(resource_of(ReplicaSet), index.keys),
            Watch(resource_of(Pod), self._recreate_deployment_keys),
        )

    async def reconcile(self, key: NamespacedName) -> float | None:
        deployment = self._deployments.get_by_key(key)
        if deployment is None or self._writes.is_stale(deployment):
            return None
        uid = deployment.metadata.uid
        if not self._expectations.is_satisfied(uid):
            return self._expectations.expires_in(uid)
        selector = selector_or_nothing(deployment.spec.selector)
        if selector.is_nothing:
            return None
        if selector.is_everything:
            await self._refuse(deployment)
            return None
        sets = await claim(deployment, selector, candidates(self._sets, deployment), self._claims)
        if any(self._writes.is_stale(rs) for rs in sets):
            return None
        return await self._carry_out(deployment, sets, decide(deployment, sets, self._pods_of, self._clock.now()))

    def _recreate_deployment_keys(self, pod: Pod) -> Iterable[Hashable]:
        """Return the Deployment that waits for the deletion of this pod under the Recreate strategy."""
        reference = controller_of(pod)
        if reference is None or reference.kind != "ReplicaSet":
            return ()
        rs = self._sets.get(reference.name, pod.metadata.namespace)
        owner = controller_of(rs) if rs is not None else None
        deployment = self._deployments.get(owner.name, pod.metadata.namespace) if owner is not None else None
        return (key_of(deployment),) if deployment is not None and deployment.spec.strategy.type == RECREATE else ()

    def _pods_of(self, sets: Sequence[ReplicaSet]) -> Iterable[Pod]:
        return [pod for rs in sets for pod in self._pods.find(by_controller_or_orphan, rs.metadata.uid)]

    async def _carry_out(
        self, deployment: Deployment, replica_sets: Sequence[ReplicaSet], step: RolloutStep
    ) -> float | None:
        if step.rollback is not None:
            await self._roll_back(deployment, step.rollback)
            return None
        before = {rs.metadata.uid: rs for rs in replica_sets}
        _note_scaling(deployment, before, step)
        if step.create is not None and not await self._create(deployment, step.create):
            return None
        for rs in step.changes:
            await self._change(deployment, before[rs.metadata.uid], rs)
        for rs in step.deletions:
            await self._delete(rs)
        return await self._write_status(deployment, step)

    async def _create(self, deployment: Deployment, new: ReplicaSet) -> bool:
        """Create the ReplicaSet and return whether that succeeded."""
        uid = deployment.metadata.uid
        self._expectations.expect(uid, creations=1)
        try:
            created = await self._set_client.create(new)
        except errors.ApiError as error:
            self._expectations.lower_creations(uid)
            await self._handle_create_error(deployment, new, error)
            return False
        self._writes.record_write(created)
        if size(new) > 0:
            self._record_event(deployment, f"Scaled up replica set {new.metadata.name} from 0 to {size(new)}")
        return True

    async def _handle_create_error(self, deployment: Deployment, new: ReplicaSet, error: errors.ApiError) -> None:
        if is_namespace_terminating(error):
            return
        if isinstance(error, errors.AlreadyExists):
            return await self._count_collision(deployment, new)
        message = f"Failed to create new replica set {quote(new.metadata.name)}: {error}"
        self._events.event(deployment, WARNING, CREATE_ERROR, message)
        if deadline_s(deployment) is not None:
            stamp = format_time(self._clock.now())
            failed = condition(PROGRESSING, FALSE, CREATE_ERROR, message, stamp)
            await self._write(
                with_conditions(deployment, set_deployment_condition(deployment.status.conditions, failed))
            )
        raise error

    async def _count_collision(self, deployment: Deployment, new: ReplicaSet) -> None:
        """Increment the collision count, unless the object is the Deployment's own ReplicaSet, not cached yet."""
        other = await self._set_client.get(new.metadata.name, new.metadata.namespace)
        if is_controlled_by(other, deployment) and is_same_template(other.spec.template, deployment.spec.template):
            raise errors.Conflict(f"ReplicaSet {new.metadata.name} already exists")
        count = (deployment.status.collisionCount or 0) + 1
        status = msgspec.structs.replace(deployment.status, collisionCount=count)
        await self._write(msgspec.structs.replace(deployment, status=status))

    async def _change(self, deployment: Deployment, before: ReplicaSet, after: ReplicaSet) -> None:
        self._writes.record_write(await self._set_client.update(after))
        if size(before) != size(after):
            direction = "up" if size(after) > size(before) else "down"
            name = after.metadata.name
            self._record_event(
                deployment, f"Scaled {direction} replica set {name} from {size(before)} to {size(after)}"
            )

    async def _delete(self, rs: ReplicaSet) -> None:
        try:
            await self._set_client.delete(rs.metadata.name, rs.metadata.namespace)
        except errors.NotFound:
            return

    async def _write_status(self, deployment: Deployment, step: RolloutStep) -> float | None:
        after = step.deployment
        if after.status == deployment.status and after.metadata.annotations == deployment.metadata.annotations:
            return step.again_s
        await self._write(after)
        return None

    async def _write(self, deployment: Deployment) -> None:
        """Write the status and the annotations."""
        try:
            self._writes.record_write(await self._client.update_status(deployment))
        except errors.NotFound:
            return  # The Deployment was deleted meanwhile.

    async def _roll_back(self, deployment: Deployment, rollback: RollbackDecision) -> None:
        self._writes.record_write(await self._client.update(rollback.deployment))
        self._events.event(deployment, rollback.type, rollback.reason, rollback.message)

    async def _refuse(self, deployment: Deployment) -> None:
        message = "This deployment is selecting all pods. A non-empty selector is required."
        self._events.event(deployment, WARNING, "SelectingAll", message)
        generation = deployment.metadata.generation
        if deployment.status.observedGeneration < generation:
            status = msgspec.structs.replace(deployment.status, observedGeneration=generation)
            await self._write(msgspec.structs.replace(deployment, status=status))

    def _record_event(self, deployment: Deployment, message: str) -> None:
        self._events.event(deployment, NORMAL, SCALING, message)


def _note_scaling(deployment: Deployment, before: Mapping[str, ReplicaSet], step: RolloutStep) -> None:
    """Note which ReplicaSets the step creates, scales and deletes."""
    actions = [f"create {step.create.metadata.name} with {size(step.create)}"] if step.create is not None else []
    for changed in step.changes:
        old_size = size(before[changed.metadata.uid])
        if old_size != size(changed):
            actions.append(f"scale {changed.metadata.name} from {old_size} to {size(changed)}")
    actions += [f"delete {rs.metadata.name}" for rs in step.deletions]
    if actions:
        replicas = sum(map(size, before.values()))
        note_decision(f"{desired_replicas(deployment)} replicas", replicas, ", ".join(actions))
