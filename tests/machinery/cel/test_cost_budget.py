"""Evaluations on the event loop share one budget; without a limit each has the limit of its environment."""

from __future__ import annotations

import pytest

from sampan.machinery.cel import CelError, CostLimitExceeded, Environment
from sampan.machinery.cel.cost_budget import UNLIMITED_COST, BudgetExceeded, CostBudget

PROGRAM = Environment({}).compile("[1, 2, 3].all(number, number > 0)")
COST = PROGRAM.run({}).cost


def test_evaluations_share_the_budget() -> None:
    budget = CostBudget(2 * COST)
    assert budget.evaluate(PROGRAM, {}) is True
    assert budget.evaluate(PROGRAM, {}) is True
    with pytest.raises(BudgetExceeded):
        budget.evaluate(PROGRAM, {})


def test_an_error_of_the_expression_is_not_an_exceeded_budget() -> None:
    with pytest.raises(CelError, match="division by zero"):
        CostBudget(100).evaluate(Environment({}).compile("1 / 0 > 0"), {})


def test_unlimited_budget_keeps_the_limit_of_the_environment() -> None:
    limited = Environment({}, cost_limit=COST).compile("[1, 2, 3].all(number, number > 0)")
    for _ in range(3):
        assert UNLIMITED_COST.evaluate(limited, {}) is True
    with pytest.raises(CostLimitExceeded):
        UNLIMITED_COST.evaluate(Environment({}, cost_limit=COST - 1).compile("[1, 2, 3].all(number, number > 0)"), {})
