"""Schema-directed decoding of unusual bodies, with the results and errors of kube-apiserver.

Every unknown and duplicate field is reported, in the order of the text; null becomes the field's zero value; duplicate
objects and lists are merged; the first value of a wrong type is reported with kube-apiserver's message. The result is a
plain value that fits the type. This is far slower than msgspec, so it is only used when msgspec rejects a body or
duplicate keys are suspected.
"""

import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any, Final

from msgspec import Raw, json

from sampan.api import limits
from sampan.api.codec.errors import DecodeError
from sampan.api.codec.parsed import JsonDecimal, JsonPairs, format_as_written, text, to_plain
from sampan.api.go_compat import conversion_errors, gotext
from sampan.api.schema.tree import Schema
from sampan.api.values import quantity, times

_RAW = ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "io.k8s.apimachinery.pkg.runtime.RawExtension")
"""The definitions whose values are kept as JSON bytes."""
INT32 = range(-(2**31), 2**31)
INT64 = range(-(2**63), 2**63)
ZEROS: dict[str, Any] = {"string": "", "integer": 0, "number": 0.0, "boolean": False}


class _Absence(Enum):
    MISSING = auto()


_MISSING: Final = _Absence.MISSING


def decode(value: Any, schema: Schema) -> tuple[Any, list[str]]:
    """Return the plain value of a parsed or plain value, and the strict errors. Raise DecodeError for a wrong type."""
    reader = _Reader()
    try:
        decoded = reader.read(value, schema, conversion_errors.name_of(schema), _MISSING)
    except RecursionError:
        raise DecodeError("exceeded max depth") from None
    if reader.error_message is not None:
        raise DecodeError(reader.error_message)
    return ({} if decoded is _MISSING else decoded), list(reader.strict)


class _Reader:
    def __init__(self) -> None:
        self.error_message: str | None = None
        """The first type error; decoding continues, because a more severe error may follow."""
        self.strict: dict[str, None] = {}
        self.path: list[str] = []
        """Keys and [indexes] of the current position."""
        self.fields: list[str] = []
        """The Go struct fields of the current position."""
        self.struct = ""
        self.silent = 0

    def read(self, value: Any, schema: Schema, go_type: str, old: Any) -> Any:
        """Return the decoded `value`. `old` is the result of an earlier field of the same name; _NOTHING means the zero
        value."""
        if schema.preserve_unknown:
            return self._opaque(value, schema)
        if schema.format in _SELF_WRITTEN:
            return self._read_with_unmarshaller(value, schema)
        if value is None:
            return _MISSING if old is _MISSING or _is_reset_by_null(schema) else old
        if schema.properties or (schema.type == "object" and schema.additional is None):
            return self._struct(value, schema, go_type, old)
        if schema.additional is not None:
            return self._map(value, schema.additional, go_type, old)
        if schema.items is not None:
            return self._list(value, schema.items, go_type, old)
        return self._scalar(value, schema, go_type)

    def _struct(self, value: Any, schema: Schema, go_type: str, old: Any) -> Any:
        if schema.type == "":
            return self._read_json_schema(value, schema, go_type)
        if not isinstance(value, JsonPairs | dict):
            return self._record_type_error(kind(value), go_type)
        outer, name = self.struct, schema.name.rpartition(".")[2]
        out: dict[str, Any] = old if isinstance(old, dict) else {}
        keys: set[str] = set()
        for key, item in _pairs(value):
            child = schema.properties.get(key)
            if child is None:
                self._strict("unknown", text(key))
                continue
            if key in keys:
                self._strict("duplicate", key)
            keys.add(key)
            self.struct = name
            depth = len(self.fields)
            self.fields.extend(conversion_errors.field_path(schema.name, key))
            self._put(out, key, item, child, conversion_errors.type_of(schema.name, key, child))
            del self.fields[depth:]
        self.struct = outer
        return out

    def _put(self, out: dict[str, Any], key: str, item: Any, child: Schema, go_type: str) -> None:
        self.path.append(key)
        decoded = self.read(item, child, go_type, out.get(key, _MISSING))
        self.path.pop()
        if decoded is _MISSING:
            out.pop(key, None)
        else:
            out[key] = decoded

    def _map(self, value: Any, child: Schema, go_type: str, old: Any) -> Any:
        if not isinstance(value, JsonPairs | dict):
            return self._record_type_error(kind(value), go_type)
        out: dict[str, Any] = old if isinstance(old, dict) else {}
        keys: set[str] = set()
        inner = conversion_errors.element(go_type, child)
        for key, item in _pairs(value):
            key = text(key)
            if key in keys:
                self._strict("duplicate", key)
            keys.add(key)
            self.path.append(key)
            out[key] = _default_to_zero(self.read(item, child, inner, _MISSING), child)
            self.path.pop()
        return out

    def _list(self, value: Any, child: Schema, go_type: str, old: Any) -> Any:
        if not isinstance(value, list) or isinstance(value, JsonPairs):
            return self._record_type_error(kind(value), go_type)
        inner, out = conversion_errors.element(go_type, child), []
        before = old if isinstance(old, list) else []
        for index, item in enumerate(value):
            self.path.append(f"[{index}]")
            decoded = self.read(item, child, inner, before[index] if index < len(before) else _MISSING)
            out.append(_default_to_zero(decoded, child))
            self.path.pop()
        return out

    def _read_json_schema(self, value: Any, schema: Schema, go_type: str) -> Any:
        """Decode a JSON schema, or a boolean or list in its place."""
        self.silent += 1
        try:
            if isinstance(value, JsonPairs | dict):
                props = Schema(type="object", name=conversion_errors.JSON_SCHEMA_PROPS, properties=schema.properties)
                return self._struct(value, props, go_type, _MISSING)
            if isinstance(value, list) and schema.items is not None:
                return self._list(value, schema.items, go_type, _MISSING)
            if isinstance(value, bool) and schema.items is None:
                return value
            raise DecodeError("boolean or JSON schema expected" if schema.items is None else "invalid JSON schema")
        finally:
            self.silent -= 1

    def _opaque(self, value: Any, schema: Schema) -> Any:
        if value is None:
            return _MISSING
        content = to_plain(value)
        return Raw(json.encode(content)) if schema.name in _RAW else content

    def _read_with_unmarshaller(self, value: Any, schema: Schema) -> Any:
        """Decode a type with an unmarshaller of its own; its errors abort the whole decoding."""
        if value is None:
            return _MISSING
        try:
            return _SELF_WRITTEN[schema.format](value)
        except _WrongKind as wrong:
            raise DecodeError(self._message(wrong.value, wrong.go_type)) from None
        except ValueError as error:
            raise DecodeError(str(error)) from None

    def _scalar(self, value: Any, schema: Schema, go_type: str) -> Any:
        if schema.type == "string" and isinstance(value, str):
            return self._bytes(text(value)) if schema.format == "byte" else text(value)
        if schema.type == "boolean" and isinstance(value, bool):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._record_type_error(kind(value), go_type)
        if schema.type == "number":
            return float(value)
        if schema.type != "integer":
            return self._record_type_error("number", go_type)
        fits = INT32 if schema.format == "int32" else INT64
        return (
            value
            if isinstance(value, int) and value in fits
            else self._record_type_error(f"number {format_as_written(value)}", go_type)
        )

    def _bytes(self, value: str) -> Any:
        error = conversion_errors.base64_error_message(value)
        if error is not None:
            self.error_message = self.error_message or error
        return _MISSING if error else re.sub(r"[\r\n]", "", value)

    def _record_type_error(self, kind: str, go_type: str) -> Any:
        self.error_message = self.error_message or self._message(kind, go_type)
        return _MISSING

    def _message(self, kind: str, go_type: str) -> str:
        target = f"Go struct field {self.struct}.{'.'.join(self.fields)}" if self.fields else "Go value"
        return f"json: cannot unmarshal {kind} into {target} of type {go_type}"

    def _strict(self, kind: str, key: str) -> None:
        if self.silent or len(self.strict) >= limits.STRICT_ERRORS:
            return
        self.strict[f"{kind} field {quote_field(self.path, key)}"] = None


class _WrongKind(Exception):
    def __init__(self, value: Any, go_type: str) -> None:
        is_decimal = isinstance(value, JsonDecimal) and go_type == "int32"
        out_of_range = isinstance(value, int) and not isinstance(value, bool)
        self.value = (
            f"number {format_as_written(value)}" if is_decimal or (out_of_range and go_type == "int32") else kind(value)
        )
        self.go_type = go_type


def _quantity(value: Any) -> str:
    if isinstance(value, str):
        return quantity.canonical(text(value).strip())
    return quantity.canonical("x" if isinstance(value, bool | list | dict) else format_as_written(value))


def _time(value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongKind(value, "string")
    return times.canonical_time(text(value))


def _micro_time(value: Any) -> str:
    if not isinstance(value, str):
        raise _WrongKind(value, "string")
    return times.canonical_micro_time(text(value))


def _int_or_string(value: Any) -> int | str:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int) and not isinstance(value, bool) and value in INT32:
        return value
    raise _WrongKind(value, "int32")


_SELF_WRITTEN = {
    "quantity": _quantity,
    "date-time": _time,
    "micro-time": _micro_time,
    "int-or-string": _int_or_string,
}


def _pairs(value: Any) -> Iterable[tuple[str, Any]]:
    return value if isinstance(value, JsonPairs) else value.items()


def _default_to_zero(decoded: Any, schema: Schema) -> Any:
    """Return the result, or the zero value for an element of a list or map."""
    if decoded is not _MISSING:
        return decoded
    if schema.format in ("date-time", "micro-time") or schema.preserve_unknown:
        return None
    if schema.format in ("quantity", "int-or-string"):
        return "0" if schema.format == "quantity" else 0
    if schema.items is not None:
        return []
    return ZEROS.get(schema.type, {})


def _is_reset_by_null(schema: Schema) -> bool:
    """Whether null empties the field: pointers, lists and maps become empty, plain values keep the value of an earlier
    field of the same name."""
    return schema.additional is not None or schema.items is not None or not schema.zero


def kind(value: Any) -> str:
    """Return the name of a value's kind in Go's error messages."""
    if isinstance(value, JsonPairs | dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def join_path(path: list[str]) -> str:
    """Return the path as text, such as `spec.containers[0].image`."""
    return "".join(part if part.startswith("[") or i == 0 else f".{part}" for i, part in enumerate(path))


def quote_field(path: list[str], key: str) -> str:
    """Return the quoted path of a field for an error message, truncated to a readable length."""
    parts, length = [], 0
    for part in (*path, key):
        parts.append(part[: limits.STRICT_ERROR_LENGTH])
        length += len(parts[-1])
        if length > limits.STRICT_ERROR_LENGTH:
            break
    return gotext.quote(join_path(parts)[: limits.STRICT_ERROR_LENGTH])
