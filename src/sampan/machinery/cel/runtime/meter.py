"""The cost of an evaluation: the cost and the work so far, the limit, and the slots of the variables.

An evaluation has one frame, a list: closures access its entries faster than attributes of an object. The cost model is
that of cel-go and of Kubernetes' libraries. What it does not charge in proportion to its time or memory is charged as
work before it is done: everything that builds a string or list, and comparisons of structures. Work has a limit of its
own, as large as that of the cost. That bounds the memory of an evaluation: with the limit of Kubernetes, all strings
and lists that it builds have 20 million characters and elements in total.
"""

from __future__ import annotations

from typing import Any

from sampan.machinery.cel.errors import CostLimitExceeded

WORK, FIRST_SLOT = 2, 3
Frame = list[Any]
"""The cost so far, the limit, the work so far, then the values of the variables."""


def charge(frame: Frame, cost: int) -> None:
    """Add to the cost. Raise CostLimitExceeded."""
    frame[0] += cost
    if frame[0] > frame[1]:
        raise CostLimitExceeded


def charge_work(frame: Frame, work: int) -> None:
    """Add to the work, which is no part of the cost. Raise CostLimitExceeded."""
    frame[2] += work
    if frame[2] > frame[1]:
        raise CostLimitExceeded


def charge_size(frame: Frame, size: int) -> None:
    """Charge for traversing or building `size` characters, bytes or list elements: a tenth of their number, rounded up,
    as cel-go charges for strings. Raise CostLimitExceeded."""
    frame[0] += (size + 9) // 10
    if frame[0] > frame[1]:
        raise CostLimitExceeded
