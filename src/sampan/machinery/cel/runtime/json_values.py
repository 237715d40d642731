"""The values of expressions as JSON, for the mutations of admission policies.

A JSON patch has values in the JSON format of protobuf. An apply configuration has the values as they are, of which
those that JSON does not have do not fit any field; they are formatted for the error.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

from sampan.api.go_compat.gotext import GoValue
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.library.authorizer import AuthorizerValue, DecisionValue
from sampan.machinery.cel.library.formats import FormatValue
from sampan.machinery.cel.runtime.values import (
    Duration,
    Opaque,
    OptionalValue,
    Timestamp,
    TypeValue,
    Uint,
    is_list,
    is_map,
    type_name,
)

_MAX_EXACT_INTEGER = 2**53 - 1
_KEY_ERRORS = {
    "bool": "type conversion error from bool to 'string'",
    "int": "unsupported type conversion from 'int' to string",
    "uint": "unsupported type conversion from 'uint' to string",
}
_PROTOBUF_VALUE = "*structpb.Value"


def json_value(value: Any) -> Any:
    """Return a value in the JSON format of protobuf. Raise EvaluationError for one that has none."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) <= _MAX_EXACT_INTEGER else str(int(value))
    if isinstance(value, float):
        return _json_number(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Duration | Timestamp):
        return str(value)
    if is_list(value):
        return [json_value(item) for item in value]
    if is_map(value):
        return {_json_key(key): json_value(item) for key, item in value.items()}
    if isinstance(value, OptionalValue):
        if not value.has_value:
            raise EvaluationError("optional.none() dereference")
        return json_value(value.value)
    if isinstance(value, TypeValue):
        raise EvaluationError("type conversion not supported for 'type'")
    raise EvaluationError(f"type conversion error from '{_short_type_name(value)}' to '{_PROTOBUF_VALUE}'")


def _json_number(value: float) -> int | float:
    if math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT_INTEGER else value
    text = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    why = f"proto: google.protobuf.Value.number_value: invalid {text} value"
    raise EvaluationError(f"json: error calling MarshalJSON for type {_PROTOBUF_VALUE}: {why}")


def _json_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    raise EvaluationError(_KEY_ERRORS.get(type_name(key), "unsupported map key"))


def _short_type_name(value: Any) -> str:
    if isinstance(value, FormatValue):
        return "Format"
    name = type_name(value)
    return name if isinstance(value, AuthorizerValue | DecisionValue) else name.rpartition(".")[2]


def configuration_value(value: Any) -> Any:
    """Return a value of an apply configuration, in which values that JSON does not have are a `GoValue`. Raise
    EvaluationError for a map whose keys are no strings."""
    if isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT_INTEGER else value
    if isinstance(value, Uint):
        return GoValue(str(int(value)), hex(value), "uint64")
    if isinstance(value, int):
        return value
    if is_list(value):
        return [configuration_value(item) for item in value]
    if is_map(value):
        return _configuration_map(value)
    return _go_value(value)


def _configuration_map(value: Mapping[Any, Any]) -> dict[str, Any]:
    if any(not isinstance(key, str) for key in value):
        raise EvaluationError("invalid return type: *dynamic.ObjectVal")
    return {key: configuration_value(item) for key, item in value.items()}


def _go_value(value: Any) -> GoValue:
    if value is None:
        return GoValue("NULL_VALUE", "0", "structpb.NullValue")
    if isinstance(value, bytes):
        return GoValue(f"[{' '.join(map(str, value))}]", f"[]uint8{{{', '.join(map(hex, value))}}}", "[]uint8")
    if isinstance(value, Duration):
        return GoValue(str(value), str(value.nanoseconds), "time.Duration")
    text = str(value) if isinstance(value, Opaque | Timestamp) else type_name(value)
    return GoValue(text, text, type_name(value))
