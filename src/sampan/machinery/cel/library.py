"""All functions that Kubernetes adds to the language, where they are here."""

from collections.abc import Sequence

from sampan.machinery.cel.addresses import FUNCTIONS as OF_ADDRESSES
from sampan.machinery.cel.expression import Function
from sampan.machinery.cel.lists import FUNCTIONS as OF_LISTS
from sampan.machinery.cel.quantities import FUNCTIONS as OF_QUANTITIES

FUNCTIONS: Sequence[Function] = (*OF_QUANTITIES, *OF_LISTS, *OF_ADDRESSES)

__all__ = ["FUNCTIONS"]
