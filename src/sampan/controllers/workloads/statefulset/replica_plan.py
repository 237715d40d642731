"""Planning of the next actions of a StatefulSet. Pure.

With OrderedReady, pods are created, replaced and deleted one at a time, and only if all predecessors are available.
With Parallel, everything possible is done at once. In both cases the parts are carried out in sequence: desired pods,
claims of condemned pods, condemned pods from the highest ordinal down, and the rolling update. The strategy Recreate
deletes all pods of other revisions and waits until they are gone, before anything else.

The cost of a decision depends on the number of existing pods, never on `spec.replicas`, which a user may set to two
billion: ordinals stay a `range`, missing pods are built lazily, and a part has at most about `BURST` steps.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property

from sampan.api.semantics.conditions import FALSE, TRUE, find_condition, with_condition
from sampan.api.semantics.pods import PENDING, RUNNING, is_available, is_ready, is_terminal
from sampan.api.semantics.workloads import desired_replicas
from sampan.api.types.apps_v1 import StatefulSet, StatefulSetCondition, StatefulSetStatus
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod, PodTemplateSpec
from sampan.api.values.int_or_string import scale_int_or_percent
from sampan.api.values.times import format_time
from sampan.controllers.ownership.pods import BURST
from sampan.controllers.workloads.statefulset.identity import (
    claim_name,
    has_identity,
    has_storage,
    new_pod,
    ordinal_of,
    ordinals,
    revision_of,
)
from sampan.controllers.workloads.statefulset.volume_claims import has_right_owners, is_deleted_when_scaled, is_stale

PARALLEL = "Parallel"
ROLLING_UPDATE, ON_DELETE, RECREATE = "RollingUpdate", "OnDelete", "Recreate"
PROGRESSING = "Progressing"
"""The condition of a StatefulSet with the strategy Recreate."""
IN_PROGRESS, COMPLETED = "RecreateInProgress", "RecreateCompleted"
"""The reasons of that condition."""


class ReplicaAction(Enum):
    CREATE = auto()
    """Create the pod and its missing claims."""
    DELETE = auto()
    ADD_CLAIMS = auto()
    """Create the missing claims of a pending pod."""
    OWN_CLAIMS = auto()
    """Correct the owner references of the pod's claims."""
    CORRECT = auto()
    """Correct the pod's identity and storage, and the owner references of its claims."""


@dataclass(frozen=True, slots=True)
class ReplicaStep:
    action: ReplicaAction
    pod: Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSetView:
    """A StatefulSet with its pods, claims and templates, from which its next actions are decided."""

    sset: StatefulSet
    current: str
    """The name of the revision that pods below the partition have."""
    current_template: PodTemplateSpec
    update: str
    update_template: PodTemplateSpec
    collisions: int = 0
    pods: Sequence[Pod]
    claim: Callable[[str], PersistentVolumeClaim | None]
    """Return the claim of that name in the set's namespace."""
    held_s: Callable[[str], float] = lambda name: 0.0
    """Return the remaining backoff, in seconds, for replacing the terminated pod of that name."""
    now: float
    has_unavailability_budget: bool = True
    """Whether a rolling update may take several pods down: the feature gate MaxUnavailableStatefulSet."""


@dataclass(slots=True)
class StatefulSetPlan:
    status: StatefulSetStatus
    parts: list[list[ReplicaStep]] = field(default_factory=list)
    """Parts are carried out in sequence. The steps of a part run in sequence, or in batches if `is_parallel`."""
    is_parallel: bool = False
    again_s: float | None = None
    """Seconds until the backoff of a terminated pod ends."""

    @property
    def steps(self) -> list[ReplicaStep]:
        return [step for part in self.parts for step in part]

    @property
    def deletes_running_pods(self) -> bool:
        return any(step.action is ReplicaAction.DELETE and not is_terminal(step.pod) for step in self.steps)


def decide(view: StatefulSetView) -> StatefulSetPlan:
    return _ReplicaPlanner(view).plan()


class _ReplicaPlanner:
    def __init__(self, view: StatefulSetView) -> None:
        self.view, self.sset = view, view.sset
        self.desired_ordinals = desired = ordinals(view.sset)
        self.by_ordinal = by_ordinal = {ordinal_of(pod): pod for pod in view.pods}
        self.present = [by_ordinal[ordinal] for ordinal in sorted(by_ordinal) if ordinal in desired]
        """The existing pods with a desired ordinal, in order."""
        surplus = sorted((ordinal for ordinal in by_ordinal if ordinal >= 0 and ordinal not in desired), reverse=True)
        self.condemned = [by_ordinal[ordinal] for ordinal in surplus]
        self.waits: list[float] = []
        self.is_parallel = view.sset.spec.podManagementPolicy == PARALLEL

    def plan(self) -> StatefulSetPlan:
        plan = StatefulSetPlan(status=self._status(), is_parallel=self.is_parallel)
        if self.sset.metadata.deletionTimestamp is None:
            if (old_pods := self._pods_to_recreate()) is not None:
                plan.is_parallel = True
                plan.parts = [old_pods] if old_pods else []
                set_progressing(plan.status, TRUE, IN_PROGRESS, "Deleting old revision pods", self.view.now)
            else:
                self._note_recreation(plan.status)
                plan.parts = [steps for steps in self._parts(plan.status) if steps]
            plan.again_s = min(self.waits, default=None)
        complete_update(self.sset, plan.status, self.view.now)
        return plan

    def _pods_to_recreate(self) -> list[ReplicaStep] | None:
        """Return the deletions of pods of other revisions for the strategy Recreate. Return None if the strategy is
        another one, or no such pods are left, not even terminating ones."""
        if self.sset.spec.updateStrategy.type != RECREATE:
            return None
        old_pods = [pod for pod in (*self.present, *self.condemned) if revision_of(pod) != self.view.update]
        if not old_pods:
            return None
        return [ReplicaStep(ReplicaAction.DELETE, pod) for pod in old_pods if not _is_terminating(pod)][:BURST]

    def _note_recreation(self, status: StatefulSetStatus) -> None:
        if self.sset.spec.updateStrategy.type == RECREATE and self.view.current != self.view.update:
            set_progressing(status, TRUE, IN_PROGRESS, "Waiting for new-revision pods to be created", self.view.now)

    def _status(self) -> StatefulSetStatus:
        view = self.view
        pods = (*self.present, *self.condemned)
        return compute_status(
            self.sset, pods, current=view.current, update=view.update, collisions=view.collisions, now=view.now
        )

    def _replicas(self) -> Iterator[Pod]:
        """Yield the desired pods in order; missing ones are built lazily."""
        for ordinal in self.desired_ordinals:
            yield self.by_ordinal.get(ordinal) or self._make_missing_pod(ordinal)

    def _parts(self, status: StatefulSetStatus) -> list[list[ReplicaStep]]:
        parts: list[list[ReplicaStep]] = []
        for pods, steps_for in (
            (self._replicas(), self._plan_replica),
            (self.condemned, self._plan_claims_of_condemned),
            (self.condemned, self._plan_condemned),
        ):
            part: list[ReplicaStep] = []
            parts.append(part)
            for pod in pods:
                steps, is_end = steps_for(pod)
                part += steps
                if is_end and not self.is_parallel:
                    return parts
                if len(part) >= BURST:
                    break  # Watch events of these pods trigger the next sync.
        if self.sset.spec.updateStrategy.type not in (ON_DELETE, RECREATE):
            outdated = self._plan_update()
            parts.append([ReplicaStep(ReplicaAction.DELETE, pod) for pod in outdated])
            status.currentReplicas -= len(outdated)
        return parts

    def _plan_replica(self, pod: Pod) -> tuple[list[ReplicaStep], bool]:
        """Return the steps for a desired pod, and whether its successors must wait."""
        if not _is_created(pod):
            return ([] if self._has_stale_claim(pod) else [ReplicaStep(ReplicaAction.CREATE, pod)]), True
        if is_terminal(pod):
            return self._plan_ended(pod), True
        steps: list[ReplicaStep] = []
        if pod.status.phase == PENDING and self._lacks_claims(pod):
            steps.append(ReplicaStep(ReplicaAction.ADD_CLAIMS, pod))
        is_late = _is_terminating(pod) or not is_running_and_ready(pod) or not self._is_available(pod)
        if is_late and not self.is_parallel:
            if pod.status.phase == PENDING and not self._owns_claims(pod):
                steps.append(ReplicaStep(ReplicaAction.OWN_CLAIMS, pod))
            return steps, True
        if not (has_identity(self.sset, pod) and has_storage(self.sset, pod) and self._owns_claims(pod)):
            steps.append(ReplicaStep(ReplicaAction.CORRECT, pod))
        return steps, False

    def _plan_ended(self, pod: Pod) -> list[ReplicaStep]:
        if _is_terminating(pod):
            return []
        if (backoff_s := self.view.held_s(pod.metadata.name)) > 0:
            self.waits.append(backoff_s)
            return []
        return [ReplicaStep(ReplicaAction.DELETE, pod)]

    def _plan_claims_of_condemned(self, pod: Pod) -> tuple[list[ReplicaStep], bool]:
        return ([] if self._owns_claims(pod) else [ReplicaStep(ReplicaAction.OWN_CLAIMS, pod)]), False

    def _plan_condemned(self, pod: Pod) -> tuple[list[ReplicaStep], bool]:
        if _is_terminating(pod):
            return [], True
        is_well = self._is_running_and_available(pod)
        # A terminated pod never becomes available, so that it must not be waited for.
        may_go = is_well or is_terminal(pod) or self.is_parallel or pod is self._first_unavailable
        return ([ReplicaStep(ReplicaAction.DELETE, pod)] if may_go else []), True

    def _plan_update(self) -> Sequence[Pod]:
        """Return the outdated pods that a rolling update deletes next."""
        update = self.sset.spec.updateStrategy.rollingUpdate
        updated_ordinals = self.desired_ordinals[(update.partition or 0) if update is not None else 0 :]
        if not self.view.has_unavailability_budget:
            return self._plan_single_update(updated_ordinals)
        budget = max_unavailable(self.sset) - (
            len(self.desired_ordinals) - len(self.present) + sum(map(self._is_unavailable, self.present))
        )
        outdated = [
            pod
            for pod in reversed(self.present)
            if ordinal_of(pod) in updated_ordinals and revision_of(pod) != self.view.update and not _is_terminating(pod)
        ]
        if not self.is_parallel:
            return outdated[: max(budget, 0)][:BURST]
        # Pods that are down already cost nothing of the budget.
        unavailable = [pod for pod in outdated if not self._is_running_and_available(pod)]
        available = [pod for pod in outdated if not self._is_unavailable(pod)]
        return (*unavailable, *available[: max(budget, 0)])[:BURST]

    def _plan_single_update(self, updated_ordinals: range) -> Sequence[Pod]:
        """Return the highest outdated pod, provided that all above it are available."""
        for ordinal in reversed(updated_ordinals):
            pod = self.by_ordinal.get(ordinal)
            if pod is None:
                return ()  # The missing pod is about to be created.
            if revision_of(pod) != self.view.update and not _is_terminating(pod):
                return (pod,)
            if self._is_unavailable(pod):
                return ()
        return ()

    def _make_missing_pod(self, ordinal: int) -> Pod:
        view = self.view
        if self._is_kept_back(ordinal):
            return new_pod(self.sset, view.current_template, view.current, ordinal)
        return new_pod(self.sset, view.update_template, view.update, ordinal)

    def _is_kept_back(self, ordinal: int) -> bool:
        """Whether the ordinal is to keep the current revision: it is below the partition, or not reached yet."""
        strategy, start = self.sset.spec.updateStrategy, self.desired_ordinals.start
        if strategy.rollingUpdate is not None:
            return ordinal < start + (strategy.rollingUpdate.partition or 0)
        return strategy.type == ROLLING_UPDATE and ordinal < start + self.sset.status.currentReplicas

    @cached_property
    def _first_unavailable(self) -> Pod | None:
        """Return the first unavailable pod, with condemned ones last; None if there is none or a pod is missing."""
        if len(self.present) < len(self.desired_ordinals):
            return None
        return next((pod for pod in (*self.present, *reversed(self.condemned)) if self._is_unavailable(pod)), None)

    def _is_available(self, pod: Pod) -> bool:
        return is_available(pod, self.sset.spec.minReadySeconds, self.view.now)

    def _is_running_and_available(self, pod: Pod) -> bool:
        return is_running_and_ready(pod) and self._is_available(pod)

    def _is_unavailable(self, pod: Pod) -> bool:
        return not self._is_available(pod) or _is_terminating(pod)

    def _claims(self, pod: Pod) -> list[PersistentVolumeClaim | None]:
        templates = self.sset.spec.volumeClaimTemplates
        if not templates:
            return []
        ordinal = ordinal_of(pod)
        return [self.view.claim(claim_name(self.sset, template, ordinal)) for template in templates]

    def _lacks_claims(self, pod: Pod) -> bool:
        return any(claim is None or _is_terminating(claim) for claim in self._claims(pod))

    def _owns_claims(self, pod: Pod) -> bool:
        pod_claims = self._claims(pod)
        return all(claim is None or has_right_owners(claim, self.sset, pod) for claim in pod_claims)

    def _has_stale_claim(self, pod: Pod) -> bool:
        """Whether a claim is still owned by an earlier pod of the name; a new pod must wait for its deletion."""
        if not is_deleted_when_scaled(self.sset):
            return False
        return any(claim is not None and is_stale(claim, pod) for claim in self._claims(pod))


def _is_created(pod: Pod) -> bool:
    return bool(pod.metadata.uid)


def _is_terminating(obj: Pod | PersistentVolumeClaim) -> bool:
    return obj.metadata.deletionTimestamp is not None


def is_running_and_ready(pod: Pod) -> bool:
    return pod.status.phase == RUNNING and is_ready(pod)


def compute_status(
    sset: StatefulSet, pods: Iterable[Pod], *, current: str, update: str, collisions: int, now: float
) -> StatefulSetStatus:
    """Return the status; `current` and `update` are names of revisions."""
    status = StatefulSetStatus(
        observedGeneration=sset.metadata.generation,
        currentRevision=current,
        updateRevision=update,
        collisionCount=collisions,
        conditions=list(sset.status.conditions),
    )
    for pod in pods:
        _count(status, pod, sset.spec.minReadySeconds, now)
    return status


def _count(status: StatefulSetStatus, pod: Pod, min_ready_seconds: int, now: float) -> None:
    status.replicas += 1
    if is_running_and_ready(pod):
        status.readyReplicas += 1
        status.availableReplicas += is_available(pod, min_ready_seconds, now)
    if pod.metadata.deletionTimestamp is None:
        revision = revision_of(pod)
        status.currentReplicas += revision == status.currentRevision
        status.updatedReplicas += revision == status.updateRevision


def complete_update(sset: StatefulSet, status: StatefulSetStatus, now: float) -> None:
    """Make the update revision the current one if the update has reached every pod."""
    if status.updatedReplicas == status.readyReplicas == status.replicas == desired_replicas(sset):
        status.currentReplicas = status.updatedReplicas
        status.currentRevision = status.updateRevision
        if sset.spec.updateStrategy.type == RECREATE and find_condition(status.conditions, PROGRESSING) is not None:
            set_progressing(status, FALSE, COMPLETED, "All pods recreated successfully", now)


def set_progressing(status: StatefulSetStatus, value: str, reason: str, message: str, now: float) -> None:
    condition = StatefulSetCondition(
        type=PROGRESSING, status=value, reason=reason, message=message, lastTransitionTime=format_time(now)
    )
    status.conditions = with_condition(status.conditions, condition)


def max_unavailable(sset: StatefulSet) -> int:
    """Return how many pods a rolling update may take down at a time, at least 1."""
    update = sset.spec.updateStrategy.rollingUpdate
    value = update.maxUnavailable if update is not None else None
    return max(1, scale_int_or_percent(1 if value is None else value, desired_replicas(sset), round_up=False))


def is_status_changed(status: StatefulSetStatus, old_status: StatefulSetStatus) -> bool:
    return status.observedGeneration > old_status.observedGeneration or _select_reported_fields(
        status
    ) != _select_reported_fields(old_status)


def _select_reported_fields(status: StatefulSetStatus) -> tuple[object, ...]:
    return (
        status.replicas,
        status.currentReplicas,
        status.readyReplicas,
        status.updatedReplicas,
        status.availableReplicas,
        status.currentRevision,
        status.updateRevision,
        status.conditions,
    )
