"""What the kit calls too fast a growth."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.growth.cost import Growth


def growth(cost_s: Callable[[float], float]) -> Growth:
    """The growth of work that takes so long for a share of the items."""
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
    ids=["linear", "quadratic", "n**1.5", "mixed", "a step below the middle", "a step above the middle", "cheap"],
)
def test_which_growth_is_too_fast(cost_s: Callable[[float], float], is_too_fast: bool) -> None:
    assert growth(cost_s).is_too_fast is is_too_fast
