"""Detection of CPU time that grows too fast."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sampan.apiserver.registry.podspec import images
from tests.growth.cost import Growth, without_value_caches


def growth(cost_s: Callable[[float], float]) -> Growth:
    """Return the growth of work whose cost is a function of the share of the items."""
    return Growth("work", 4000, cost_s(0.25), cost_s(0.5), cost_s(1.0))


@pytest.mark.parametrize(
    ("cost_s", "is_too_fast"),
    [
        (lambda share: share, False),
        (lambda share: share * share, True),
        (lambda share: share**1.5, True),
        (lambda share: 0.2 * share + 0.8 * share * share, True),
        (lambda share: share * (2.2 if share > 0.3 else 1.0), False),
        (lambda share: share * (2.2 if share > 0.6 else 1.0), False),
        (lambda share: 0.05 * share * share, False),
    ],
    ids=["linear", "quadratic", "n**1.5", "mixed", "step-below-the-middle", "step-above-the-middle", "cheap"],
)
def test_too_fast_growth_is_detected(cost_s: Callable[[float], float], is_too_fast: bool) -> None:
    assert growth(cost_s).is_too_fast is is_too_fast


def test_value_caches_are_bypassed() -> None:
    images.pull_policy("a:b")
    with without_value_caches():
        assert images.pull_policy("a:b") == "IfNotPresent"
        assert "a:b" not in images._pull_policies
    images.pull_policy("a:b")
    assert "a:b" in images._pull_policies
