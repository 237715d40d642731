"""The cost of an evaluation: the cost so far, the limit, and the slots of the variables.

An evaluation has one frame, a list: closures access its entries faster than attributes of an object. The cost model is
that of cel-go and of Kubernetes' libraries, with one addition: everything that builds a string or list costs at least
in proportion to the size of the result, and is charged before it is built. That bounds the memory of an evaluation:
with the limit of Kubernetes, all strings and lists that it builds have 10 million characters and elements in total.
"""

from __future__ import annotations

from typing import Any

from sampan.machinery.cel.errors import CostLimitExceeded

FIRST_SLOT = 2
Frame = list[Any]
"""The cost so far, the limit, then the values of the variables."""


def charge(frame: Frame, cost: int) -> None:
    """Add to the cost. Raise CostLimitExceeded."""
    frame[0] += cost
    if frame[0] > frame[1]:
        raise CostLimitExceeded


def charge_size(frame: Frame, size: int) -> None:
    """Charge for traversing or building `size` characters, bytes or list elements: a tenth of their number, rounded up,
    as cel-go charges for strings. Raise CostLimitExceeded."""
    frame[0] += (size + 9) // 10
    if frame[0] > frame[1]:
        raise CostLimitExceeded
