"""What the generated types stand on: their base classes and the defaults that say what is printed when.

msgspec leaves a field out when its value is its default, or an empty list or map made by the default's factory. Any
other factory's value is always printed: so `x: str = ""` disappears when empty, `x: str = TEXT` does not.
"""

from typing import Any

import msgspec
from msgspec import Raw, field

from sampan.api.values import json_numbers


class Struct(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A part of an API object. Trees of these hold no cycles, so the collector need not look at them."""


class SchemaNode(Struct, kw_only=True):
    """A JSON schema, whose numbers are as a client reads them back."""

    def __post_init__(self) -> None:
        for name in ("maximum", "minimum", "multipleOf"):
            bound = getattr(self, name)
            if bound is not None:
                setattr(self, name, json_numbers.from_float(float(bound)))
        for name in ("default", "enum", "example"):
            value = getattr(self, name)
            if value is not None and type(value) not in (str, bool):
                setattr(self, name, json_numbers.normalize(value))


class Object(Struct, kw_only=True):
    """A whole API object or list, with its own kind and apiVersion."""

    kind: str = ""
    apiVersion: str = ""


def always(value: str) -> Any:
    """A default that is always printed."""
    return field(default_factory=value.__str__)


def _zero_quantity() -> str:
    return "0"


def _null_json() -> Raw:
    return Raw(b"null")


LIST: Any = field(default_factory=list)
DICT: Any = field(default_factory=dict)
TEXT: Any = field(default_factory=str)
ZERO: Any = field(default_factory=int)
FALSE: Any = field(default_factory=bool)
ZERO_QUANTITY: Any = field(default_factory=_zero_quantity)
NULL: Any = field(default_factory=type(None))
NO_JSON: Any = Raw()
NULL_JSON: Any = field(default_factory=_null_json)

Bool = bool
Str = str
