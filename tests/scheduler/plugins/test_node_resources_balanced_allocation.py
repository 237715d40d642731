"""NodeResourcesBalancedAllocation against a version that looks at one node at a time."""

import math

import pytest
from hypothesis import given

from tests.scheduler.plugins.resource_oracle import amount, requested_amount, used_amount
from tests.scheduler.random_clusters import GPU, Situation, few, profile_with, scores, situations


@pytest.mark.parametrize("names", [["cpu", "memory"], ["cpu", "memory", GPU]])
def test_balanced_usage_raises_the_score(names: list[str]) -> None:
    resources = [{"name": name, "weight": 1} for name in names]
    profile = profile_with("NodeResourcesBalancedAllocation", resources=resources)

    def evenness(fractions: list[float]) -> int:
        if len(fractions) == 2:
            return int((1 - abs(fractions[0] - fractions[1]) / 2) * 100)
        if len(fractions) < 2:
            return 100
        mean = sum(fractions) / len(fractions)
        return int((1 - math.sqrt(sum((fraction - mean) ** 2 for fraction in fractions) / len(fractions))) * 100)

    @few
    @given(situations())
    def check(situation: Situation) -> None:
        pod, expected = situation.pod, {}
        for node in situation.nodes:
            after, before = [], []
            for name in names:
                there, own = amount(name, node.status.allocatable.get(name)), requested_amount(pod, name)
                if there and (own or name != GPU):
                    in_use = used_amount(situation, node, name)
                    after.append(min(1.0, (in_use + own) / there))
                    before.append(min(1.0, in_use / there))
            expected[node.metadata.name] = 50 + (50 + evenness(after) - evenness(before)) // 2
        actual = scores(situation.simulation(profile=profile), "NodeResourcesBalancedAllocation", pod, list(expected))
        if not any(requested_amount(pod, name) for name in names):
            assert actual is None
        else:
            assert actual is not None
            # sums of floats in another order may round to another whole number
            assert all(abs(actual[node] - score) <= (len(names) > 2) for node, score in expected.items())

    check()
