"""Admits or rejects pods bound to a node, and preempts other pods for critical ones (`pkg/kubelet/preemption`).

The choice of the pods to preempt is pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sampan.api.semantics.pod_qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from sampan.api.types.core_v1 import Pod
from sampan.kubelet import admission
from sampan.kubelet.admission import Amounts, amounts_of
from sampan.kubelet.pod_events import PodEvents
from sampan.kubelet.pod_lifecycle import PodLifecycle
from sampan.kubelet.pod_sources import is_critical
from sampan.kubelet.pod_status import PodFailure, rejected
from sampan.kubelet.records import PodRecord, PodSyncState, Records
from sampan.kubelet.status_manager import StatusManager
from sampan.machinery.clock import Clock
from sampan.machinery.events import WARNING

PREEMPTED = PodFailure(
    reason="Preempting",
    message="Preempted in order to admit critical pod",
    disruption="Pod was preempted by Kubelet to accommodate a critical pod.",
)
_COUNTED = ("memory", "cpu", "ephemeral-storage")


class PodAdmitter:
    def __init__(
        self, *, lifecycle: PodLifecycle, records: Records, statuses: StatusManager, events: PodEvents, clock: Clock
    ) -> None:
        self._lifecycle, self._records, self._statuses = lifecycle, records, statuses
        self._events, self._clock = events, clock

    def admit(self, record: PodRecord) -> list[PodRecord] | None:
        """Admit or reject the pod. Return the pods preempted for it, whose termination the caller must dispatch, or
        None if it was rejected. A pod that already has container statuses was admitted before and is not checked again.
        """
        requests, preempted = amounts_of(record.pod), list[PodRecord]()
        if not record.pod.status.containerStatuses:
            if (failure := self._failure(record, requests)) is not None:
                failure, preempted = self._preempt(record, requests, failure)
            if failure is not None:
                self.reject(record, failure)
                return None
        record.move_to(PodSyncState.ADMITTED)
        record.count(requests)
        return preempted

    def reject(self, record: PodRecord, failure: PodFailure) -> None:
        self._events.pod(record.node, record.pod, WARNING, failure.reason, failure.message)
        record.move_to(PodSyncState.TERMINATED)
        self._statuses.set_pod_status(record, rejected(record.pod, failure, self._clock.now()))
        self._statuses.finish(record)

    def _failure(self, record: PodRecord, requests: Amounts) -> PodFailure | None:
        node = record.node
        if (failure := self._lifecycle.admission_failure(record.pod)) is not None:
            return failure
        ports = frozenset[tuple[str, str, int]]()
        if admission.ports_of(record.pod):
            ports = frozenset().union(*(admission.ports_of(pod) for pod in self._others(record)))
        return admission.admit(record.pod, node.api_node, requests, node.used, len(node.pods), ports)

    def _preempt(
        self, record: PodRecord, requests: Amounts, failure: PodFailure
    ) -> tuple[PodFailure | None, list[PodRecord]]:
        """Preempt other pods if a critical pod was rejected for lack of resources. Return the remaining rejection, if
        any, and the preempted pods.
        """
        node = record.node
        if not is_critical(record.pod) or not admission.is_lack_of_resources(failure):
            return failure, []
        lacking = admission.lacking(node.api_node, requests, node.used, len(node.pods))
        pods = victims(record.pod, self._others(record), lacking)
        if pods is None:
            return no_victims_failure(lacking), []
        preempted = [self._records[pod.metadata.uid] for pod in pods]
        for victim in preempted:
            self._events.pod(node, victim.pod, WARNING, PREEMPTED.reason, PREEMPTED.message)
            victim.spec.failure = PREEMPTED
            victim.free()
        return None, preempted

    def _others(self, record: PodRecord) -> list[Pod]:
        return [self._records[uid].pod for uid in sorted(record.node.pods) if uid in self._records]


def victims(pod: Pod, others: Sequence[Pod], lacking: Mapping[str, int]) -> list[Pod] | None:
    """Return as few pods as possible, preferring the lowest QoS class, or None if preempting all of them would not
    suffice.
    """
    classes = {name: list[Pod]() for name in (BEST_EFFORT, BURSTABLE, GUARANTEED)}
    for other in others:
        if _may_preempt(pod, other):
            classes[qos_class(other.spec)].append(other)
    best_effort, burstable, guaranteed = classes.values()
    if _left(lacking, [*best_effort, *burstable, *guaranteed]):
        return None
    last = _nearest(guaranteed, _left(lacking, [*best_effort, *burstable]))
    middle = _nearest(burstable, _left(lacking, [*best_effort, *last]))
    first = _nearest(best_effort, _left(lacking, [*middle, *last]))
    return [*first, *middle, *last]


def no_victims_failure(lacking: Mapping[str, int]) -> PodFailure:
    """Return the rejection of a critical pod for which preemption cannot free enough resources."""
    amounts = "".join(f"(res: {name}, q: {amount}), " for name, amount in lacking.items())
    why = f"no set of running pods found to reclaim resources: [{amounts}]"
    text = "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of"
    return PodFailure(reason="UnexpectedAdmissionError", message=f"{text} pods to preempt: {why}")


def _may_preempt(pod: Pod, other: Pod) -> bool:
    if is_critical(pod) and not is_critical(other):
        return True
    ours, theirs = pod.spec.priority, other.spec.priority
    return ours is not None and theirs is not None and ours > theirs


def _left(lacking: Mapping[str, int], without: Sequence[Pod]) -> Amounts:
    """Return what is still lacking without the pods `without`."""
    freed = [_requests_of(item) for item in without]
    remaining = {name: amount - sum(item.get(name, 0) for item in freed) for name, amount in lacking.items()}
    return {name: amount for name, amount in remaining.items() if amount > 0}


def _nearest(pods: Sequence[Pod], lacking: Mapping[str, int]) -> list[Pod]:
    """Pick, one after another, the pod whose requests come closest to what is lacking; of equal ones the smaller."""
    candidates, remaining, chosen = list(pods), dict(lacking), list[Pod]()
    while remaining and candidates:
        best = min(candidates, key=lambda pod: (_distance(pod, remaining), _size(pod)))
        candidates.remove(best)
        chosen.append(best)
        remaining = _left(remaining, [best])
    return chosen


def _distance(pod: Pod, lacking: Mapping[str, int]) -> float:
    requests = _requests_of(pod)
    return sum((max(amount - requests.get(name, 0), 0) / amount) ** 2 for name, amount in lacking.items())


def _size(pod: Pod) -> tuple[int, ...]:
    requests = _requests_of(pod)
    return tuple(requests.get(name, 0) for name in _COUNTED)


def _requests_of(pod: Pod) -> Amounts:
    return {**amounts_of(pod), "pods": 1}
