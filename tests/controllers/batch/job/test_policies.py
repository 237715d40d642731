"""Pod failure policies and success policies of jobs."""

from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.batch_v1 import PodFailurePolicy, SuccessPolicy
from sampan.api.types.core_v1 import Pod
from sampan.controllers.batch.job.pod_state import CompletionIndexes
from sampan.controllers.batch.job.policies import PodFailureMatch, match_failure_policy, match_success_policy
from tests.controllers.batch.job.pods import pod

FAIL_42 = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
IGNORE_EVICTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
NOT_1 = {"action": "FailIndex", "onExitCodes": {"containerName": "c", "operator": "NotIn", "values": [1]}}
EVICTED = {"type": "DisruptionTarget", "status": "True"}


@pytest.mark.parametrize(
    ("rules", "failed", "expected"),
    [
        ([FAIL_42], pod("a", "Failed", code=1), PodFailureMatch()),
        (
            [IGNORE_EVICTED, FAIL_42],
            pod("a", "Failed", code=42),
            PodFailureMatch(
                "FailJob", "Container c for pod default/a failed with exit code 42 matching FailJob rule at index 1"
            ),
        ),
        ([IGNORE_EVICTED, FAIL_42], pod("a", "Failed", code=42, conditions=[EVICTED]), PodFailureMatch("Ignore")),
        ([NOT_1], pod("a", "Failed", code=2), PodFailureMatch("FailIndex")),
        ([NOT_1], pod("a", "Failed", code=1), PodFailureMatch()),
        ([NOT_1], pod("a", "Failed", code=0), PodFailureMatch()),
        (
            [{**IGNORE_EVICTED, "action": "FailJob"}],
            pod("a", "Failed", conditions=[EVICTED]),
            PodFailureMatch("FailJob", "Pod default/a has condition DisruptionTarget matching FailJob rule at index 0"),
        ),
    ],
)
def test_the_first_matching_rule_of_the_failure_policy_decides(
    rules: list[dict[str, Any]], failed: Pod, expected: PodFailureMatch
) -> None:
    assert match_failure_policy(codec.from_value({"rules": rules}, PodFailurePolicy), failed) == expected


@pytest.mark.parametrize(
    ("rules", "succeeded", "expected"),
    [
        ([{"succeededIndexes": "0,2"}], [0, 1], None),
        ([{"succeededIndexes": "0,2"}], [0, 2], "Matched rules at index 0"),
        ([{"succeededCount": 3}, {"succeededIndexes": "0-3", "succeededCount": 1}], [3], "Matched rules at index 1"),
        ([{"succeededCount": 2}], [3, 4], "Matched rules at index 0"),
        ([{"succeededCount": 2}], [], None),
    ],
)
def test_a_success_policy_is_met_by_indexes_or_by_their_count(
    rules: list[dict[str, Any]], succeeded: list[int], expected: str | None
) -> None:
    assert (
        match_success_policy(
            codec.from_value({"rules": rules}, SuccessPolicy), 5, CompletionIndexes.from_indexes(succeeded)
        )
        == expected
    )
