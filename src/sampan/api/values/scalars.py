"""Scalar API types with an encoding of their own: quantities, times, int-or-string, opaque field sets.

At run time a quantity or time is a plain `str` in canonical form. The classes here only mark fields, so that the
decoder knows which strings to normalize (`decode_hook`).
"""

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from msgspec import Meta, Raw

from sampan.api.values import quantity, times
from sampan.host.bounded_cache import BoundedCache

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
IntOrString = Int32 | str
FieldsV1: TypeAlias = Raw
"""The fields that a manager owns, as JSON bytes, because most readers only pass them on."""
RawJSON: TypeAlias = Raw
"""Content that the API does not interpret (RawExtension), as JSON bytes, because clients compare it byte by byte. An
optional field that is not set is the object `base.NO_JSON` itself, which msgspec then omits."""

if TYPE_CHECKING:
    Quantity: TypeAlias = str
    Time: TypeAlias = str
    MicroTime: TypeAlias = str
else:

    class _AnyString(type):
        """Makes a plain string an instance, which msgspec checks after `decode_hook`."""

        def __instancecheck__(cls, value):
            return isinstance(value, str)

    class Quantity(metaclass=_AnyString):
        pass

    class Time(metaclass=_AnyString):
        pass

    class MicroTime(metaclass=_AnyString):
        pass


_times = BoundedCache(times.canonical_time, max_entries=4096, max_entry_bytes=512)
_micro_times = BoundedCache(times.canonical_micro_time, max_entries=4096, max_entry_bytes=512)


def decode_hook(kind: type, value: Any) -> Any:
    """Return the canonical form of a scalar, for msgspec. Raise ValueError for an invalid scalar, and for a decimal
    number: a quantity depends on the spelling of the number, which msgspec does not provide."""
    if kind is Quantity and isinstance(value, str | int):
        return quantity.canonical(value)
    if not isinstance(value, str):
        raise ValueError(f"{value!r} needs a closer look")
    return _times[value] if kind is Time else _micro_times[value]
