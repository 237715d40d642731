"""Quantities: `quantity("1Gi").isGreaterThan(quantity("500Mi"))`."""

from __future__ import annotations

from typing import Any

from sampan.api.values import quantity
from sampan.machinery.cel.checker.declarations import Library, function, method
from sampan.machinery.cel.checker.estimate import traverse
from sampan.machinery.cel.checker.types import BOOL, DOUBLE, INT, STRING, opaque
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.runtime.values import INT_MAX, INT_MIN, Opaque

QUANTITY = opaque("kubernetes.Quantity")


class QuantityValue(Opaque):
    __slots__ = ("quantity",)
    type_name = "kubernetes.Quantity"

    def __init__(self, value: quantity.Quantity) -> None:
        self.quantity = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantityValue) and self.quantity == other.quantity

    def __hash__(self) -> int:
        return hash(self.quantity)

    def __str__(self) -> str:
        return str(self.quantity)


def quantity_value(text: str) -> QuantityValue:
    """Return the value for a variable. Raise QuantityError."""
    return QuantityValue(quantity.parse(text))


def _quantity(text: str) -> QuantityValue:
    try:
        return QuantityValue(quantity.parse(text))
    except quantity.QuantityError as error:
        raise EvaluationError(f"quantity parse error during conversion from string: {error}") from None


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def _compare(left: QuantityValue, right: QuantityValue) -> int:
    return (left.quantity > right.quantity) - (left.quantity < right.quantity)


def _is_integer(value: QuantityValue) -> bool:
    number = value.quantity
    whole = number.value()
    return quantity.Quantity(whole) == number and INT_MIN <= whole <= INT_MAX


def _as_integer(value: QuantityValue) -> int:
    if not _is_integer(value):
        raise EvaluationError("cannot convert value to integer")
    return value.quantity.value()


def _as_quantity(value: Any) -> quantity.Quantity:
    return value.quantity if isinstance(value, QuantityValue) else quantity.Quantity(value)


def _add(left: QuantityValue, right: Any) -> QuantityValue:
    return QuantityValue(left.quantity + _as_quantity(right))


def _sub(left: QuantityValue, right: Any) -> QuantityValue:
    return QuantityValue(left.quantity - _as_quantity(right))


def _traversal(text: str) -> int:
    return (len(text) + 9) // 10


LIBRARY = Library(
    {
        "quantity": [function(STRING, result=QUANTITY, run=_quantity, cost=_traversal, estimate=traverse())],
        "isQuantity": [function(STRING, result=BOOL, run=_is_quantity, cost=_traversal, estimate=traverse())],
        "sign": [function(QUANTITY, result=INT, run=lambda value: value.quantity.sign)],
        "isGreaterThan": [method(QUANTITY, QUANTITY, result=BOOL, run=lambda left, right: _compare(left, right) > 0)],
        "isLessThan": [method(QUANTITY, QUANTITY, result=BOOL, run=lambda left, right: _compare(left, right) < 0)],
        "compareTo": [method(QUANTITY, QUANTITY, result=INT, run=_compare)],
        "asApproximateFloat": [method(QUANTITY, result=DOUBLE, run=lambda value: value.quantity.as_float())],
        "asInteger": [method(QUANTITY, result=INT, run=_as_integer)],
        "isInteger": [method(QUANTITY, result=BOOL, run=_is_integer)],
        "add": [
            method(QUANTITY, QUANTITY, result=QUANTITY, run=_add),
            method(QUANTITY, INT, result=QUANTITY, run=_add),
        ],
        "sub": [
            method(QUANTITY, QUANTITY, result=QUANTITY, run=_sub),
            method(QUANTITY, INT, result=QUANTITY, run=_sub),
        ],
    },
    types=(QUANTITY,),
)
