"""Validation of resource quantities that several kinds share."""

from sampan.api import quantity
from sampan.api.faults import FieldError
from sampan.apiserver.registry.podspec import amounts
from sampan.apiserver.registry.podspec.formats import NEGATIVE, FieldErrors


def validate_resource_quantity(name: str, text: str, at: str) -> FieldErrors:
    """Yield errors for a quantity that is negative, or fractional although its resource is counted in integers."""
    if text.isdigit():
        return
    amount = quantity.parse(text)
    if amount.sign < 0:
        yield FieldError.invalid(at, text, NEGATIVE)
    if amounts.is_complete(name) and amount.milli_value() % 1000:
        yield FieldError.invalid(at, text, "must be an integer")
