"""Random objects of a kind: any object that its schema allows, and valid objects with small changes."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sampan.api.schema.tree import Schema
from tests.api.schema_values import values

_NUMBERS = st.sampled_from([0, 1, -1, 7, 2**31 - 1, -(2**31)])
_TEXTS = st.sampled_from(
    ["", "a", "A_b", "a.example.com/b", "10.0.0.1", "Never", "In", "Exists", "Odd", "None", "*", "/"]
)


@st.composite
def objects(draw: st.DrawFn, schema: Schema, good: dict[str, Any]) -> dict[str, Any]:
    """Draw a random object, or the valid object with or without additional random fields; then perhaps mutate it."""
    value: dict[str, Any] = draw(values(schema, depth=draw(st.integers(2, 6))))
    how = draw(st.sampled_from(("random", "joined", "joined", "good")))
    if how == "joined":
        value = _joined(good, value)
    elif how == "good":
        value = good
    mutated: dict[str, Any] = _mutated(draw, value) if draw(st.booleans()) else value
    return mutated


def _joined(good: Any, other: Any) -> Any:
    """Merge two values; the valid value takes precedence down to the leaves."""
    if isinstance(good, dict) and isinstance(other, dict):
        return {**other, **{key: _joined(value, other.get(key)) for key, value in good.items()}}
    return good


def _mutated(draw: st.DrawFn, value: Any) -> Any:
    """Replace some leaves by other values of their type, and remove or duplicate some parts."""
    if isinstance(value, dict):
        return {key: _mutated(draw, part) for key, part in value.items() if draw(st.integers(0, 9))}
    if isinstance(value, list):
        parts = [_mutated(draw, part) for part in value]
        return parts if draw(st.integers(0, 3)) else [*parts, *parts]
    if draw(st.integers(0, 4)) or isinstance(value, float) or value is None:
        return value
    return not value if isinstance(value, bool) else draw(_NUMBERS if isinstance(value, int) else _TEXTS)


def examples(strategy: st.SearchStrategy[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Return the same examples in every run. An asynchronous server cannot be called inside a hypothesis test."""
    examples: list[dict[str, Any]] = []

    @settings(
        max_examples=count, database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(value: dict[str, Any]) -> None:
        examples.append(value)

    collect()
    return examples
