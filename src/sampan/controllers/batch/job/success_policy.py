"""Evaluation of a job's successPolicy."""

from sampan.api.types.batch_v1 import SuccessPolicy, SuccessPolicyRule
from sampan.controllers.batch.job.indexes import Indexes


def met(policy: SuccessPolicy | None, completions: int, succeeded: Indexes) -> str | None:
    """Return the message for the first rule that is met, or None if none is."""
    if policy is None or not succeeded.spans:
        return None
    for index, rule in enumerate(policy.rules or ()):
        if _is_met(rule, completions, succeeded):
            return f"Matched rules at index {index}"
    return None


def _is_met(rule: SuccessPolicyRule, completions: int, succeeded: Indexes) -> bool:
    count = rule.succeededCount
    if rule.succeededIndexes is None:
        return count is not None and len(succeeded) >= count
    required = Indexes.parse(rule.succeededIndexes, completions)
    count_met = required.overlap(succeeded)
    return bool(required.spans) and (count_met == len(required) or (count is not None and count_met >= count))
