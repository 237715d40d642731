"""The cost that evaluations of CEL expressions on the event loop may have together.

Expressions are evaluated on the loop first, since almost all of them take microseconds. When they exceed their budget,
the caller evaluates them again in a worker thread with `UNLIMITED_COST`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sampan.machinery.cel.errors import CostLimitExceeded

if TYPE_CHECKING:
    from sampan.machinery.cel.environment import Program


class BudgetExceeded(Exception):
    """The expressions cost more than their budget. It is no CelError: they may succeed without a budget."""


class CostBudget:
    """Evaluates programs while their costs add up to no more than `limit`. With the limit None each evaluation has the
    limit of its environment."""

    def __init__(self, limit: int | None) -> None:
        self._left = limit

    def evaluate(self, program: Program, variables: Mapping[str, Any]) -> Any:
        """Return the value. Raise BudgetExceeded or CelError."""
        if self._left is None:
            return program.evaluate(variables)
        try:
            result = program.run(variables, self._left)
        except CostLimitExceeded:
            raise BudgetExceeded from None
        self._left -= result.cost + result.work
        return result.value


UNLIMITED_COST: Final = CostBudget(None)
