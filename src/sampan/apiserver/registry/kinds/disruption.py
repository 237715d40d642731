"""Whether a pod disruption budget allows the eviction of a pod. `pod_eviction` writes the result."""

from sampan.api.semantics.conditions import FALSE, find_condition, keep_transition_time, without_condition
from sampan.api.semantics.pods import is_ready
from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import Condition
from sampan.api.types.policy_v1 import PodDisruptionBudget
from sampan.machinery import errors

_MESSAGE = "Cannot evict pod as it would violate the pod's disruption budget."
_CONDITION = "DisruptionAllowed"
_CAUSE = "DisruptionBudget"
_DISRUPTED_MOST = 2000


def is_guarded(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """Whether evicting the pod requires an allowed disruption of the budget.

    It does not for a pod that is not ready if the budget's policy is AlwaysAllow, or if the budget is met without the
    pod.
    """
    if is_ready(pod):
        return True
    if budget.spec.unhealthyPodEvictionPolicy == "AlwaysAllow":
        return False
    status = budget.status
    return not (status.currentHealthy >= status.desiredHealthy > 0)


def allow_disruption(budget: PodDisruptionBudget, pod: str, now: str) -> None:
    """Take one allowed disruption from the budget, in place.

    Raise TooManyRequests if none is left or the budget's status is outdated, Forbidden if its status makes no sense.
    """
    status, name = budget.status, budget.metadata.name
    if status.observedGeneration < budget.metadata.generation:
        raise still_processed(budget)
    if status.disruptionsAllowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(status.disruptedPods) > _DISRUPTED_MOST:
        raise _forbidden(name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if status.disruptionsAllowed == 0:
        raise _refusal(_why_not(budget))
    status.disruptionsAllowed -= 1
    if status.disruptionsAllowed == 0:
        _set_condition(budget, now)
    status.disruptedPods[pod] = now


def still_processed(budget: PodDisruptionBudget) -> errors.ApiError:
    why = f"The disruption budget {budget.metadata.name} is still being processed by the server."
    return _refusal(why, retry_after_s=10)


def _refusal(why: str, retry_after_s: int = 0) -> errors.ApiError:
    causes = [{"reason": _CAUSE, "message": why}]
    return errors.too_many_requests(_MESSAGE, retry_after_s=retry_after_s, causes=causes)


def _forbidden(name: str, why: str) -> errors.ApiError:
    return errors.forbidden("poddisruptionbudget", name, why, group="policy")


def _why_not(budget: PodDisruptionBudget) -> str:
    status, start = budget.status, f"The disruption budget {budget.metadata.name}"
    condition = find_condition(status.conditions, _CONDITION)
    says_no = condition is not None and condition.status == "False" and bool(condition.message)
    if condition is not None and says_no and condition.reason == "SyncFailed":
        return f"{start} does not allow evicting pods currently because it failed sync: {condition.message}"
    if status.currentHealthy <= status.desiredHealthy:
        return f"{start} needs {status.desiredHealthy} healthy pods and has {status.currentHealthy} currently"
    if condition is not None and says_no:
        return f"{start} does not allow evicting pods currently ({condition.reason}): {condition.message}"
    return f"{start} does not allow evicting pods currently"


def _set_condition(budget: PodDisruptionBudget, now: str) -> None:
    desired = Condition(
        type=_CONDITION,
        status=FALSE,
        reason="InsufficientPods",
        observedGeneration=budget.status.observedGeneration,
        lastTransitionTime=now,
    )
    keep_transition_time(find_condition(budget.status.conditions, _CONDITION), desired)
    budget.status.conditions = [*without_condition(budget.status.conditions, _CONDITION), desired]
