"""statefulset-controller, which keeps the pods of a StatefulSet in order, with their names and volumes: it reads the
caches, carries out the decisions and writes the status."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import Selector
from sampan.api.semantics.pods import available_in_s, is_terminal
from sampan.api.types.apps_v1 import ControllerRevision, StatefulSet, StatefulSetStatus
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.controllers.descriptor import ControllerConfig
from sampan.controllers.namespace_phase import is_namespace_terminating
from sampan.controllers.ownership import (
    ClaimControl,
    Expectations,
    OwnerIndex,
    candidates,
    claim,
    slow_start,
)
from sampan.controllers.ownership.pods import FIRST, ReplacementBackoff
from sampan.controllers.ownership.revisions import RevisionHistory, template_of
from sampan.controllers.workloads.statefulset.identity import is_member
from sampan.controllers.workloads.statefulset.members import StatefulPodControl
from sampan.controllers.workloads.statefulset.replica_plan import (
    RECREATE,
    ReplicaAction,
    ReplicaStep,
    StatefulSetPlan,
    StatefulSetView,
    decide,
    is_status_changed,
)
from sampan.controllers.workloads.statefulset.revisions import RevisionFinder, SetRevisions
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch, min_delay
from sampan.machinery.control_loop.own_writes import OwnWrites
from sampan.machinery.decisions import MAX_NOTES, note_decision
from sampan.machinery.events import WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of

MAX_BACKOFF_S = 30.0
"""The maximum backoff, in seconds, for replacing a pod that terminates repeatedly."""


RECREATE_GATE = "StatefulSetRecreateStrategy"


class UnknownStrategy(Exception):
    """The update strategy of a StatefulSet needs a feature gate that is off."""


def _selector(sset: StatefulSet) -> Selector:
    return selector_of(sset.spec.selector)


class StatefulSetController:
    name = "statefulset-controller"

    def __init__(
        self,
        *,
        client: Client,
        informers: InformerFactory,
        clock: Clock,
        events: EventRecorder,
        config: ControllerConfig,
    ) -> None:
        self._events, gates = events, config.feature_gates
        self._has_unavailability_budget = gates.is_enabled("MaxUnavailableStatefulSet")
        self._has_recreate_strategy = gates.is_enabled(RECREATE_GATE)
        self._clock, self._client = clock, client.for_kind(StatefulSet)
        self._sets, self._pods = informers.for_kind(StatefulSet).lister, informers.for_kind(Pod).lister
        self._claiming = ClaimControl(owners=client.for_kind(StatefulSet), objects=client.for_kind(Pod))
        history = RevisionHistory(
            client=client, owners=StatefulSet, lister=informers.for_kind(ControllerRevision).lister
        )
        self._revisions = RevisionFinder(history=history)
        self._members = StatefulPodControl(
            client=client,
            known_claims=informers.for_kind(PersistentVolumeClaim).lister,
            events=events,
        )
        self._failures = ReplacementBackoff(MAX_BACKOFF_S)
        self._writes, self._expectations = OwnWrites(), Expectations(clock=clock)
        self._expectations.follow(informers.for_kind(Pod), informers.for_kind(StatefulSet))
        self._writes.follow(informers.for_kind(StatefulSet))
        owners = OwnerIndex(owners=self._sets, kind="StatefulSet", selector=_selector)
        self.watches = (
            Watch(resource_of(StatefulSet), lambda sset: (key_of(sset),)),
            Watch(resource_of(Pod), owners.keys),
            Watch(resource_of(ControllerRevision)),
            Watch(resource_of(PersistentVolumeClaim)),
        )

    async def reconcile(self, key: NamespacedName) -> float | None:
        sset = self._sets.get_by_key(key)
        if sset is None or self._writes.is_stale(sset):
            return None
        uid = sset.metadata.uid
        if not self._expectations.is_satisfied(uid):
            return self._expectations.expires_in(uid)
        selector = _selector(sset)
        revisions = await self._revisions.find(sset, selector)
        pods = await claim(
            sset, selector, candidates(self._pods, sset), self._claiming, also=lambda pod: is_member(sset, pod)
        )
        self._require_known_strategy(sset)
        return await self._sync(sset, revisions, pods)

    def _require_known_strategy(self, sset: StatefulSet) -> None:
        """Raise UnknownStrategy for a StatefulSet that was created while the feature gate of its strategy was on."""
        if sset.spec.updateStrategy.type == RECREATE and not self._has_recreate_strategy:
            message = f"statefulset {key_of(sset)} uses Recreate strategy but feature gate {RECREATE_GATE} is disabled"
            self._events.event(sset, WARNING, "UnknownStrategy", message)
            raise UnknownStrategy(message)

    async def _sync(self, sset: StatefulSet, revisions: SetRevisions, pods: Sequence[Pod]) -> float | None:
        now = self._clock.now()
        plan = decide(self._view(sset, revisions, pods, now))
        if plan.deletes_running_pods and not await self._is_present(sset):
            return None  # The cache is stale; the pending watch event triggers another sync.
        self._note_ended(plan, sset)
        if plan.steps:
            steps = (f"{step.action.name.lower()} {step.pod.metadata.name}" for step in plan.steps[:MAX_NOTES])
            need = f"{sset.spec.replicas} pods of revision {revisions.update.metadata.name}"
            note_decision(need, len(pods), ", ".join(steps))
        failure = await self._carry_out(plan, sset)
        await self._write_status(sset, plan.status)
        await self._revisions.truncate(revisions.surplus(sset, pods))
        if failure is not None and not is_namespace_terminating(failure):
            raise failure
        return min_delay(plan.again_s, _available_s(sset, plan.status, pods, now))

    def _view(self, sset: StatefulSet, revisions: SetRevisions, pods: Sequence[Pod], now: float) -> StatefulSetView:
        namespace = sset.metadata.namespace
        update = sset.spec.template
        return StatefulSetView(
            sset=sset,
            current=revisions.current.metadata.name,
            current_template=update if revisions.current is revisions.update else template_of(revisions.current),
            update=revisions.update.metadata.name,
            update_template=update,
            collisions=revisions.collisions,
            pods=pods,
            claim=lambda name: self._members.claim(name, namespace),
            held_s=lambda name: self._failures.remaining_s(_failure_key(sset, name), self._clock.monotonic()),
            now=now,
            has_unavailability_budget=self._has_unavailability_budget,
        )

    async def _is_present(self, sset: StatefulSet) -> bool:
        """Whether the StatefulSet on the API server has the same UID and generation as the cached one.

        Live pods must not be deleted because of a stale StatefulSet: a previous controller manager may have acted on a
        state that this cache does not show yet.
        """
        meta = sset.metadata
        try:
            fresh = (await self._client.get(meta.name, meta.namespace)).metadata
        except errors.NotFound:
            return False
        return (fresh.uid, fresh.generation) == (meta.uid, meta.generation)

    def _note_ended(self, plan: StatefulSetPlan, sset: StatefulSet) -> None:
        for step in plan.steps:
            if step.action is ReplicaAction.DELETE and is_terminal(step.pod):
                self._failures.note(_failure_key(sset, step.pod.metadata.name), self._clock.monotonic())

    # -- effects -----------------------------------------------------------------------------------------------------

    async def _carry_out(self, plan: StatefulSetPlan, sset: StatefulSet) -> Exception | None:
        """Carry out the steps up to the first error.

        All creations and deletions are expected, so that nothing else is decided before the cache shows them.
        """
        steps = plan.steps
        if not steps:
            return None
        uid, pending = sset.metadata.uid, dict.fromkeys(map(id, steps))
        self._expectations.expect(
            uid,
            sum(step.action is ReplicaAction.CREATE for step in steps),
            [step.pod.metadata.uid for step in steps if step.action is ReplicaAction.DELETE],
        )

        async def carry_out(step: ReplicaStep) -> None:
            await self._members.carry_out(step, sset)
            del pending[id(step)]

        try:
            return await _carry_out_parts(plan, carry_out)
        finally:
            self._drop_expectations(uid, [step for step in steps if id(step) in pending])

    def _drop_expectations(self, uid: str, steps: Sequence[ReplicaStep]) -> None:
        """Drop the expectations of steps that were not carried out."""
        for step in steps:
            if step.action is ReplicaAction.CREATE:
                self._expectations.lower_creations(uid)
            elif step.action is ReplicaAction.DELETE:
                self._expectations.drop_deletion(uid, step.pod.metadata.uid)

    async def _write_status(self, sset: StatefulSet, status: StatefulSetStatus) -> None:
        if not is_status_changed(status, sset.status):
            return
        try:
            self._writes.record_write(await self._client.update_status(replace(sset, status=status)))
        except errors.NotFound:
            return


async def _carry_out_parts(
    plan: StatefulSetPlan, carry_out: Callable[[ReplicaStep], Awaitable[None]]
) -> Exception | None:
    """Carry out the parts one after the other; stop at the first error and return it."""
    for part in plan.parts:
        failure = await (_run_in_batches if plan.is_parallel else _run_one_by_one)(part, carry_out)
        if failure is not None:
            return failure
    return None


async def _run_in_batches(
    part: Sequence[ReplicaStep], carry_out: Callable[[ReplicaStep], Awaitable[None]]
) -> Exception | None:
    return (await slow_start(len(part), FIRST, lambda index: carry_out(part[index]))).error


async def _run_one_by_one(
    part: Sequence[ReplicaStep], carry_out: Callable[[ReplicaStep], Awaitable[None]]
) -> Exception | None:
    for step in part:
        try:
            await carry_out(step)
        except Exception as error:
            return error
    return None


def _failure_key(sset: StatefulSet, pod: str) -> str:
    return f"{sset.metadata.uid}/{sset.metadata.generation}/{pod}"


def _available_s(sset: StatefulSet, status: StatefulSetStatus, pods: Sequence[Pod], now: float) -> float | None:
    """Return the seconds until the next ready pod becomes available."""
    minimum = sset.spec.minReadySeconds
    if not minimum or status.readyReplicas == status.availableReplicas:
        return None
    waits = [wait_s for pod in pods if (wait_s := available_in_s(pod, minimum, now)) is not None]
    return min(waits, default=float(minimum))
