"""The conditions for which `wait_for` waits, in the syntax of `kubectl wait --for` or as a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sampan.machinery.jsonpath import JsonPathError, JsonPathTemplate, text_of
from sampan.testing.manifests import Object

Predicate: TypeAlias = Callable[[Object], object]
Condition: TypeAlias = "str | Predicate"


class WaitCondition:
    """A condition of one object. `evaluate` takes None while the object does not exist."""

    def __init__(self, condition: Condition) -> None:
        """`condition` is a function of the object, `create`, `delete`, `condition=TYPE[=STATUS]`,
        `jsonpath={PATH}[=VALUE]`, or only the TYPE of a condition. If the function raises KeyError, IndexError,
        TypeError or AttributeError, the condition counts as not met yet: most fields of a status are missing at
        first."""
        self.text = condition if isinstance(condition, str) else getattr(condition, "__name__", "the function")
        self.last_error = ""
        """The error that the condition function raised when it was called last."""
        self._predicate = condition if callable(condition) else _parse(condition)

    def evaluate(self, value: Object | None) -> bool:
        if self.text == "delete":
            return value is None
        if value is None:
            return False
        try:
            self.last_error = ""
            return bool(self._predicate(value))
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            self.last_error = f"{type(error).__name__}: {error}"
            return False


def _parse(text: str) -> Predicate:
    kind, equals, remainder = text.partition("=")
    if kind in ("create", "delete") and not equals:
        return lambda value: True
    if kind == "jsonpath":
        return _jsonpath(remainder)
    if kind == "condition" or not equals:
        name, _, status = (remainder if equals else text).partition("=")
        return lambda value: _has_status(value, name, status or "True")
    raise ValueError(
        f"condition: {text!r} is not create, delete, condition=TYPE[=STATUS], jsonpath={{PATH}}[=VALUE] or a function"
    )


def _jsonpath(text: str) -> Predicate:
    path, brace, remainder = text.partition("}")
    if not text.startswith("{") or not brace:
        raise ValueError(f"condition: in jsonpath={text} the path must be in braces: jsonpath={{.status.phase}}=Ok")
    try:
        template = JsonPathTemplate(path + brace)
    except JsonPathError as error:
        raise ValueError(f"condition: jsonpath={text}: {error}") from None
    if not remainder:
        return lambda value: bool(_find_values(template, value))
    expected = remainder.removeprefix("=").strip("'\"")
    return lambda value: any(text_of(part) == expected for part in _find_values(template, value))


def _find_values(template: JsonPathTemplate, value: Object) -> list[Any]:
    try:
        return [part for parts in template.find(value) for part in parts]
    except JsonPathError:  # for example an index beyond the end of a list that is still empty
        return []


def _has_status(value: Mapping[str, Any], name: str, status: str) -> bool:
    """Whether a condition has a status, and is not about an older generation of the object."""
    present = value.get("status") or {}
    for condition in present.get("conditions") or ():
        if str(condition.get("type", "")).lower() == name.lower():
            observed = condition.get("observedGeneration", present.get("observedGeneration"))
            generation = (value.get("metadata") or {}).get("generation")
            is_current = observed is None or generation is None or observed >= generation
            return is_current and str(condition.get("status", "")).lower() == status.lower()
    return False
