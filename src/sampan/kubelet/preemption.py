"""Pure choice of the pods to preempt for a critical pod (`pkg/kubelet/preemption`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sampan.api.semantics.pod_qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from sampan.api.types.core_v1 import Pod
from sampan.kubelet.admission import Amounts, amounts_of
from sampan.kubelet.critical import is_critical
from sampan.kubelet.pod_status import Verdict

PREEMPTED = Verdict(
    reason="Preempting",
    message="Preempted in order to admit critical pod",
    disruption="Pod was preempted by Kubelet to accommodate a critical pod.",
)
_COUNTED = ("memory", "cpu", "ephemeral-storage")


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


def no_room(lacking: Mapping[str, int]) -> Verdict:
    """Return the rejection of a critical pod for which preemption cannot free enough resources."""
    amounts = "".join(f"(res: {name}, q: {amount}), " for name, amount in lacking.items())
    why = f"no set of running pods found to reclaim resources: [{amounts}]"
    text = "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of"
    return Verdict(reason="UnexpectedAdmissionError", message=f"{text} pods to preempt: {why}")


def _may_preempt(pod: Pod, other: Pod) -> bool:
    if is_critical(pod) and not is_critical(other):
        return True
    ours, theirs = pod.spec.priority, other.spec.priority
    return ours is not None and theirs is not None and ours > theirs


def _left(lacking: Mapping[str, int], gone: Sequence[Pod]) -> Amounts:
    """Return what is still lacking without the pods `gone`."""
    freed = [_asked(item) for item in gone]
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
    requests = _asked(pod)
    return sum((max(amount - requests.get(name, 0), 0) / amount) ** 2 for name, amount in lacking.items())


def _size(pod: Pod) -> tuple[int, ...]:
    requests = _asked(pod)
    return tuple(requests.get(name, 0) for name in _COUNTED)


def _asked(pod: Pod) -> Amounts:
    return {**amounts_of(pod), "pods": 1}
