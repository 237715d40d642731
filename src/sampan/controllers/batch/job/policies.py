"""The pod failure policy and the success policy of a job. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from sampan.api.types.batch_v1 import (
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
    SuccessPolicy,
    SuccessPolicyRule,
)
from sampan.api.types.core_v1 import ContainerStatus, Pod, PodCondition
from sampan.controllers.batch.job.pod_state import CompletionIndexes

IGNORE, FAIL_INDEX, FAIL_JOB, COUNT = "Ignore", "FailIndex", "FailJob", "Count"
_ACTIONS = (IGNORE, FAIL_INDEX, FAIL_JOB, COUNT)


@dataclass(frozen=True, slots=True)
class PodFailureMatch:
    action: str | None = None
    """The action of the first matching rule; None if no rule matches."""
    message: str = ""
    """The reason for the failure of the job if the action is FailJob."""

    @property
    def is_counted(self) -> bool:
        """Whether the failure counts against the backoff limit."""
        return self.action != IGNORE


_NONE = PodFailureMatch()


def match_failure_policy(policy: PodFailurePolicy | None, pod: Pod) -> PodFailureMatch:
    if policy is None:
        return _NONE
    for index, rule in enumerate(policy.rules or ()):
        reason = _match_message(rule, pod) if rule.action in _ACTIONS else None
        if reason is not None:
            message = f"{reason} matching {rule.action} rule at index {index}" if rule.action == FAIL_JOB else ""
            return PodFailureMatch(rule.action, message)
    return _NONE


def _match_message(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    """Return how the rule matches the pod, or None if it does not."""
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.onExitCodes is not None:
        container = _container(pod, rule.onExitCodes)
        if container is None or container.state.terminated is None:
            return None
        return f"Container {container.name} for pod {name} failed with exit code {container.state.terminated.exitCode}"
    condition = _condition(pod, rule.onPodConditions)
    return None if condition is None else f"Pod {name} has condition {condition.type}"


def _container(pod: Pod, requirement: PodFailurePolicyOnExitCodesRequirement) -> ContainerStatus | None:
    for container in (*pod.status.containerStatuses, *pod.status.initContainerStatuses):
        if requirement.containerName in (None, container.name) and _exit_fits(container, requirement):
            return container
    return None


def _exit_fits(container: ContainerStatus, requirement: PodFailurePolicyOnExitCodesRequirement) -> bool:
    ended = container.state.terminated
    if ended is None or ended.exitCode == 0:
        return False
    is_named = ended.exitCode in (requirement.values or ())
    return is_named if requirement.operator == "In" else requirement.operator == "NotIn" and not is_named


def _condition(pod: Pod, patterns: Iterable[PodFailurePolicyOnPodConditionsPattern]) -> PodCondition | None:
    pairs = {(pattern.type, pattern.status) for pattern in patterns}
    return next((condition for condition in pod.status.conditions if (condition.type, condition.status) in pairs), None)


def match_success_policy(policy: SuccessPolicy | None, completions: int, succeeded: CompletionIndexes) -> str | None:
    """Return the message for the first rule that is met, or None if none is."""
    if policy is None or not succeeded.spans:
        return None
    for index, rule in enumerate(policy.rules or ()):
        if _is_met(rule, completions, succeeded):
            return f"Matched rules at index {index}"
    return None


def _is_met(rule: SuccessPolicyRule, completions: int, succeeded: CompletionIndexes) -> bool:
    count = rule.succeededCount
    if rule.succeededIndexes is None:
        return count is not None and len(succeeded) >= count
    required = CompletionIndexes.parse(rule.succeededIndexes, completions)
    count_met = required.overlap(succeeded)
    return bool(required.spans) and (count_met == len(required) or (count is not None and count_met >= count))
