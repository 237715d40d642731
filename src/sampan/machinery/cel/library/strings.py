"""Functions of strings: cel-go's `strings` extension, version 2, and `format`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sampan.machinery.cel.checker.declarations import Library, function, method
from sampan.machinery.cel.checker.estimate import (
    MAX_COST,
    STRING_FACTOR,
    ZERO,
    CallEstimate,
    CostEstimator,
    Operand,
    Range,
    traverse,
)
from sampan.machinery.cel.checker.types import DYN, INT, STRING, list_of
from sampan.machinery.cel.errors import EvaluationError
from sampan.machinery.cel.library.conversions import to_string
from sampan.machinery.cel.runtime.meter import Frame, charge, charge_work
from sampan.machinery.cel.runtime.operators import key_value
from sampan.machinery.cel.runtime.values import Duration, Timestamp, TypeValue, is_list, is_map, type_name
from sampan.machinery.cel.syntax.ast import Literal

_SPACES: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER: Final = {ord(char): char.lower() for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_UPPER: Final = {ord(char): char.upper() for char in "abcdefghijklmnopqrstuvwxyz"}
_ESCAPES: Final = {
    7: "\\a",
    8: "\\b",
    12: "\\f",
    10: "\\n",
    13: "\\r",
    9: "\\t",
    11: "\\v",
    92: "\\\\",
    34: '\\"',
}


def _traversal(text: str, *_: Any) -> int:
    return (len(text) + 9) // 10


def _index_error(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


def _search_cost(text: str, *_: Any) -> int:
    return len(text.encode("utf-8", "surrogatepass")) // 10


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _index_error(index)
    return text[index : index + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0 or (offset > len(text)):
        raise _index_error(offset)
    return text.find(part, offset)


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if not part:
        return len(text) if offset is None else offset
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise _index_error(offset)
    return text.rfind(part, 0, offset + len(part)) if offset < len(text) else -1


def _replace(frame: Frame, text: str, old: str, new: str, limit: int = -1) -> str:
    """Replace parts of a string, charging for the traversal and for the size of the result before it is built."""
    charge(frame, (len(text) * 2 + 9) // 10)
    count = len(text) + 1 if not old else text.count(old)
    count = count if limit < 0 else min(count, limit)
    size = len(text) + count * (len(new) - len(old))
    charge_work(frame, max(0, (size - 2 * len(text) + 9) // 10))
    return text.replace(old, new, limit)


def _split(frame: Frame, text: str, separator: str, limit: int = -1) -> list[str]:
    """Split a string, charging for the traversal and for each part before they are built."""
    charge(frame, (len(text) * 2 + 9) // 10)
    if limit == 0:
        return []
    count = len(text) if not separator else text.count(separator) + 1
    count = count if limit < 0 else min(count, limit)
    charge_work(frame, max(0, count - (len(text) * 2 + 9) // 10))
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if 0 < limit < len(text):
        return [*text[: limit - 1], text[limit - 1 :]]
    return list(text)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        if not 0 <= start <= len(text):
            raise _index_error(start)
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            raise _index_error(index)
    return text[start:end]


def _join(frame: Frame, values: Sequence[Any], separator: str = "") -> str:
    charge_work(frame, len(values) // 10)
    if not all(type(value) is str for value in values):
        raise EvaluationError("no such overload")
    size = sum(map(len, values)) + len(separator) * max(len(values) - 1, 0)
    charge(frame, (size * 2 + 9) // 10)
    return separator.join(values)


def quote(text: str) -> str:
    """Return the text in double quotes, with escapes for control characters."""
    return f'"{text.translate(_ESCAPES)}"'


# -- format

_MAX_PRECISION = 1_000
_DEFAULT_PRECISION = 6


def _format(frame: Frame, template: str, args: Sequence[Any]) -> str:
    charge(frame, (len(template) + 9) // 10)
    charge_work(frame, 1)
    parts: list[str] = []
    position = used = 0
    while (mark := template.find("%", position)) >= 0:
        parts.append(template[position:mark])
        position = mark + 1
        if template[position : position + 1] == "%":
            parts.append("%")
            position += 1
            continue
        precision, position = _precision(template, position)
        if position >= len(template):
            raise EvaluationError("unexpected end of string")
        clause = _CLAUSES.get(template[position])
        if clause is None:
            raise EvaluationError(
                f'could not parse formatting clause: unrecognized formatting clause "{template[position]}"'
            )
        position += 1
        if used >= len(args):
            raise EvaluationError(f"index {used} out of range")
        text = clause(frame, args[used], precision)
        charge_work(frame, (len(text) + 9) // 10)
        parts.append(text)
        used += 1
    parts.append(template[position:])
    return "".join(parts)


def _precision(template: str, index: int) -> tuple[int | None, int]:
    if template[index : index + 1] != ".":
        return None, index
    end = index + 1
    while end < len(template) and template[end] in "0123456789":
        end += 1
    digits = template[index + 1 : end]
    if end >= len(template):
        raise EvaluationError("could not find end of precision specifier")
    if len(digits) > 4 or int(digits or "0") > _MAX_PRECISION:
        raise EvaluationError(f"precision exceeds maximum allowed precision: {_MAX_PRECISION}")
    return int(digits or "0"), end


def _clause_error(clause: str, allowed: str, value: Any) -> EvaluationError:
    words = f"error during formatting: {clause} clause can only be used on {allowed}, was given {type_name(value)}"
    return EvaluationError(words)


def _format_string(frame: Frame, value: Any, _: int | None = None) -> str:
    if is_list(value):
        return _format_list(frame, value)
    if is_map(value):
        return _format_map(frame, value)
    if value is None:
        return "null"
    if isinstance(value, bool | int | float | str | bytes | Timestamp | Duration | TypeValue):
        return to_string(value)
    raise _clause_error(
        "string", "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps", value
    )


def _format_element(frame: Frame, value: Any) -> str:
    """Return a value inside of a list or map as a literal of the language."""
    charge_work(frame, 1)
    if isinstance(value, str):
        charge_work(frame, len(value) // 10)
        return quote(value)
    if isinstance(value, bytes):
        return f"b{quote(to_string(value))}"
    if isinstance(value, float):
        return f"{value:.6f}" if math.isfinite(value) else f'"{_format_non_finite(value)}"'
    if isinstance(value, Timestamp):
        return f'timestamp("{value}")'
    if isinstance(value, Duration):
        return f'duration("{value}")'
    return _format_string(frame, value)


def _format_list(frame: Frame, values: Sequence[Any]) -> str:
    parts = [_format_element(frame, value) for value in values]
    charge_work(frame, sum(map(len, parts)) // 10)
    return f"[{', '.join(parts)}]"


def _format_map(frame: Frame, values: Any) -> str:
    parts = sorted(
        (_format_element(frame, key_value(key)), _format_element(frame, value)) for key, value in values.items()
    )
    charge_work(frame, sum(len(key) + len(value) for key, value in parts) // 10)
    return f"{{{', '.join(f'{key}:{value}' for key, value in parts)}}}"


def _format_non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _format_decimal(_: Frame, value: Any, __: int | None) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    raise _clause_error("decimal", "integers", value)


def _double(value: Any, clause: str) -> float:
    if isinstance(value, float):
        return value
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    raise _clause_error(clause, "doubles", value)


def _format_fixed(_: Frame, value: Any, precision: int | None) -> str:
    number = _double(value, "fixed-point")
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
    return f"{number:.{_DEFAULT_PRECISION if precision is None else precision}f}"


def _format_scientific(_: Frame, value: Any, precision: int | None) -> str:
    number = _double(value, "scientific")
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"
    return f"{number:.{_DEFAULT_PRECISION if precision is None else precision}e}"


def _format_binary(_: Frame, value: Any, __: int | None) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return format(int(value), "b")
    raise _clause_error("binary", "integers and bools", value)


def _format_octal(_: Frame, value: Any, __: int | None) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return format(int(value), "o")
    raise _clause_error("octal", "integers", value)


def _hexadecimal(form: str) -> Callable[[Frame, Any, int | None], str]:
    def run(frame: Frame, value: Any, _: int | None) -> str:
        if isinstance(value, str | bytes):
            data = value.encode() if isinstance(value, str) else value
            charge_work(frame, len(data) // 10)
            text = data.hex()
            return text.upper() if form == "X" else text
        if isinstance(value, int) and not isinstance(value, bool):
            return format(int(value), form)
        raise _clause_error("hex", "integers, byte buffers, and strings", value)

    return run


_CLAUSES: Final[Mapping[str, Callable[[Frame, Any, int | None], str]]] = {
    "s": _format_string,
    "d": _format_decimal,
    "f": _format_fixed,
    "e": _format_scientific,
    "b": _format_binary,
    "o": _format_octal,
    "x": _hexadecimal("x"),
    "X": _hexadecimal("X"),
}

# -- estimates


def _estimate_search(estimator: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(operands[0].size.scale(STRING_FACTOR))


def _estimate_replace(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    """Estimate a replacement. The result is longest if the shortest parts are replaced by the longest text as often as
    possible."""
    size, old, new = (operand.size for operand in operands[:3])
    max_count, kept_most = _replacements(size.max, old.min, new.max <= old.min)
    min_count, kept_least = _replacements(size.min, old.max, old.max <= new.min)
    result = Range(min_count, max_count).times(new).add(Range(kept_least, kept_most))
    return CallEstimate(size.scale(2 * STRING_FACTOR), result)


def _replacements(size: int, old: int, keeps_size: bool) -> tuple[int, int]:
    """Return the number of replacements, and of characters that are kept."""
    if old == 0:
        return min(size + 1, MAX_COST), size
    if keeps_size:
        return 0, size
    return math.ceil(float(size) / float(old)), 0


def _estimate_split(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size
    maximum = size.max
    limit = operands[2].node if len(operands) > 2 else None
    if isinstance(limit, Literal) and type(limit.value) is int:
        maximum = limit.value % (MAX_COST + 1)
    return CallEstimate(size.scale(2 * STRING_FACTOR), Range(0, maximum))


def _estimate_join(estimator: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    count = operands[0].size
    size = count.times(estimator.element_size(operands[0]) or ZERO)
    if len(operands) > 1:
        gaps = Range(max(count.min - 1, 0), max(count.max - 1, 0))
        size = size.add(operands[1].size.times(gaps))
    return CallEstimate(size.scale(STRING_FACTOR), size)


def _estimate_quote(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    size = operands[0].size
    quoted = Range((size.min + 2) % (MAX_COST + 1), (size.max * 2 + 2) % (MAX_COST + 1))
    return CallEstimate(size.scale(STRING_FACTOR), quoted)


def _estimate_format(_: CostEstimator, operands: Sequence[Operand]) -> CallEstimate:
    return CallEstimate(operands[0].size.scale(STRING_FACTOR))


_keeping = traverse(keeps_size=True)


LIBRARY = Library(
    {
        "charAt": [method(STRING, INT, result=STRING, run=_char_at)],
        "indexOf": [
            method(STRING, STRING, result=INT, run=_index_of, cost=_search_cost, estimate=_estimate_search),
            method(STRING, STRING, INT, result=INT, run=_index_of, cost=_search_cost, estimate=_estimate_search),
        ],
        "lastIndexOf": [
            method(STRING, STRING, result=INT, run=_last_index_of, cost=_search_cost, estimate=_estimate_search),
            method(STRING, STRING, INT, result=INT, run=_last_index_of, cost=_search_cost, estimate=_estimate_search),
        ],
        "lowerAscii": [
            method(STRING, result=STRING, run=lambda text: text.translate(_LOWER), cost=_traversal, estimate=_keeping)
        ],
        "upperAscii": [
            method(STRING, result=STRING, run=lambda text: text.translate(_UPPER), cost=_traversal, estimate=_keeping)
        ],
        "trim": [
            method(STRING, result=STRING, run=lambda text: text.strip(_SPACES), cost=_traversal, estimate=_keeping)
        ],
        "substring": [
            method(STRING, INT, result=STRING, run=_substring, cost=_traversal, estimate=_keeping),
            method(STRING, INT, INT, result=STRING, run=_substring, cost=_traversal, estimate=_keeping),
        ],
        "replace": [
            method(STRING, STRING, STRING, result=STRING, run=_replace, is_metered=True, estimate=_estimate_replace),
            method(
                STRING, STRING, STRING, INT, result=STRING, run=_replace, is_metered=True, estimate=_estimate_replace
            ),
        ],
        "split": [
            method(STRING, STRING, result=list_of(STRING), run=_split, is_metered=True, estimate=_estimate_split),
            method(STRING, STRING, INT, result=list_of(STRING), run=_split, is_metered=True, estimate=_estimate_split),
        ],
        "join": [
            method(list_of(STRING), result=STRING, run=_join, is_metered=True, estimate=_estimate_join),
            method(list_of(STRING), STRING, result=STRING, run=_join, is_metered=True, estimate=_estimate_join),
        ],
        "strings.quote": [function(STRING, result=STRING, run=quote, cost=_traversal, estimate=_estimate_quote)],
        "format": [
            method(STRING, list_of(DYN), result=STRING, run=_format, is_metered=True, estimate=_estimate_format)
        ],
    }
)
