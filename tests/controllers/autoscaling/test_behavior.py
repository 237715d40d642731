"""Behavior of autoscalers: stabilization windows and scaling policies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.codec import json as codec
from sampan.api.types.autoscaling_v2 import HorizontalPodAutoscalerBehavior
from sampan.controllers.autoscaling.behavior import (
    Recommendations,
    ScaleEvent,
    ScaleEvents,
    limit_replicas,
    limit_replicas_with_behavior,
)

DOUBLE = {"type": "Percent", "value": 100, "periodSeconds": 15}


def behavior(up: dict[str, Any] | None = None, down: dict[str, Any] | None = None) -> HorizontalPodAutoscalerBehavior:
    defaults = {"selectPolicy": "Max", "policies": [DOUBLE], "stabilizationWindowSeconds": 0}
    value = {"scaleUp": {**defaults, **(up or {})}, "scaleDown": {**defaults, **(down or {})}}
    return codec.from_value(value, HorizontalPodAutoscalerBehavior)


@pytest.mark.parametrize(
    ("current", "desired", "expected", "reason"),
    [
        (2, 3, 3, "DesiredWithinRange"),
        (1, 9, 4, "ScaleUpLimit"),
        (3, 9, 6, "ScaleUpLimit"),
        (6, 50, 10, "TooManyReplicas"),
        (5, 1, 2, "TooFewReplicas"),
    ],
)
def test_scale_limits_without_behavior(current: int, desired: int, expected: int, reason: str) -> None:
    assert limit_replicas(current, desired, 2, 10)[:2] == (expected, reason)


@pytest.mark.parametrize(
    ("rules", "current", "desired", "expected", "reason"),
    [
        ({"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}, 5, 20, 7, "ScaleUpLimit"),
        ({"policies": [{"type": "Percent", "value": 10, "periodSeconds": 60}]}, 5, 20, 6, "ScaleUpLimit"),
        (
            {
                "selectPolicy": "Min",
                "policies": [
                    {"type": "Pods", "value": 1, "periodSeconds": 60},
                    {"type": "Percent", "value": 900, "periodSeconds": 60},
                ],
            },
            5,
            20,
            6,
            "ScaleUpLimit",
        ),
        ({"selectPolicy": "Disabled"}, 5, 20, 5, "ScaleUpLimit"),
        ({"policies": [{"type": "Percent", "value": 900, "periodSeconds": 60}]}, 5, 90, 30, "TooManyReplicas"),
    ],
)
def test_scale_up_policies_limit_replicas(
    rules: dict[str, Any], current: int, desired: int, expected: int, reason: str
) -> None:
    limited = limit_replicas_with_behavior(
        behavior(up=rules), ScaleEvents(), current=current, desired=desired, minimum=1, maximum=30, now=0
    )
    assert limited[:2] == (expected, reason)


@pytest.mark.parametrize(
    ("rules", "expected", "reason"),
    [
        ({"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}, 8, "ScaleDownLimit"),
        ({"policies": [{"type": "Percent", "value": 25, "periodSeconds": 60}]}, 7, "ScaleDownLimit"),
        ({"policies": [{"type": "Percent", "value": 100, "periodSeconds": 60}]}, 3, "TooFewReplicas"),
        ({"selectPolicy": "Disabled"}, 10, "ScaleDownLimit"),
    ],
)
def test_scale_down_policies_limit_replicas(rules: dict[str, Any], expected: int, reason: str) -> None:
    limited = limit_replicas_with_behavior(
        behavior(down=rules), ScaleEvents(), current=10, desired=1, minimum=3, maximum=30, now=0
    )
    assert limited[:2] == (expected, reason)


def test_scale_events_within_the_policy_period_count() -> None:
    rules = behavior(up={"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]})
    changes = ScaleEvents(up=[ScaleEvent(10, 3), ScaleEvent(50, 1)])
    assert (
        limit_replicas_with_behavior(rules, changes, current=9, desired=20, minimum=1, maximum=30, now=60).replicas == 9
    )
    assert (
        limit_replicas_with_behavior(rules, changes, current=9, desired=20, minimum=1, maximum=30, now=75).replicas
        == 12
    )


def test_scale_events_older_than_the_policy_period_are_dropped() -> None:
    rules, changes = behavior(up={"policies": [{"type": "Pods", "value": 4, "periodSeconds": 60}]}), ScaleEvents()
    for now in (0, 30, 100):
        changes.note(rules, 1, 3, now)
    assert [change.time for change in changes.up] == [100]
    changes.note(None, 1, 3, 100)
    assert len(changes.up) == 1


def test_scale_down_waits_for_the_stabilization_window() -> None:
    recommendations = Recommendations(300)
    recommendations.seed(10, 0)
    assert recommendations.stabilize(4, 15)[:2] == (10, "ScaleDownStabilized")
    assert recommendations.stabilize(4, 300)[:2] == (10, "ScaleDownStabilized")
    assert recommendations.stabilize(4, 301)[:2] == (4, "ReadyForNewScale")


def test_behavior_stabilizes_scale_up_and_scale_down() -> None:
    recommendations, rules = (
        Recommendations(300),
        behavior({"stabilizationWindowSeconds": 60}, {"stabilizationWindowSeconds": 60}),
    )
    recommendations.seed(5, 0)
    assert recommendations.stabilize_with_behavior(rules, 5, 9, 30)[:2] == (5, "ScaleUpStabilized")
    assert recommendations.stabilize_with_behavior(rules, 5, 9, 60)[:2] == (9, "ReadyForNewScale")
    assert recommendations.stabilize_with_behavior(rules, 9, 2, 75)[:2] == (9, "ScaleDownStabilized")


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 50)), min_size=1, max_size=20))
def test_highest_recommendation_matches_brute_force(steps: list[tuple[int, int]]) -> None:
    recommendations, recommended, now = Recommendations(100), list[tuple[float, int]](), 0.0
    for pause_s, desired in steps:
        now += pause_s
        recommended.append((now, desired))
        expected = max(replicas for time, replicas in recommended if time >= now - 100)
        assert recommendations.stabilize(desired, now).replicas == expected
