"""Random objects of a kind, the same ones in every run: objects that the schema allows, and changed valid objects.

They are drawn with `random` and not with hypothesis. An asynchronous server cannot be called inside a hypothesis test,
so that examples would not be shrunk, and drawing them with hypothesis takes several times as long as the requests.
"""

from __future__ import annotations

from random import Random
from typing import Any

from sampan.api.schema.tree import Schema

_WORDS = ("a", "b-c", "x.y/z", "ü", "<&>", "hello world")
_FORMATS: dict[str, tuple[Any, ...]] = {
    "quantity": ("0", "1", "100m", "1536Mi", "1e3"),
    "int-or-string": (0, 1, 80, 100, "25%", "http"),
    "date-time": ("2026-01-02T03:04:05Z", "1999-12-31T23:59:59Z"),
    "micro-time": ("2026-01-02T03:04:05.000006Z", "1999-12-31T23:59:59.999999Z"),
    "byte": ("aGk=", "AAEC", "/+8="),
}
_TYPES: dict[str, tuple[Any, ...]] = {
    "string": _WORDS,
    "integer": (1, 2, 3, 10, 80, 255, 256, 30_000, 65_536, 2**31 - 1),
    "number": (0.5, 2.25),
    "boolean": (True,),
}
_ANY = ({"a": 1}, {"b": {"c": ["d", None, 2.5]}})
_EDGE_NUMBERS = (0, 1, -1, 7, 2**31 - 1, -(2**31))
_EDGE_TEXTS = (
    "",
    "a",
    "A_b",
    "a.example.com/b",
    "10.0.0.1",
    "10%",
    "Never",
    "In",
    "Exists",
    "Indexed",
    "OnDelete",
    "Parallel",
    "Recreate",
    "Resource",
    "RollingUpdate",
    "Odd",
    "None",
    "*",
    "/",
)
_MAX_FIELDS, _MAX_ITEMS = 4, 2


class RandomObjects:
    def __init__(self, schema: Schema, valid: dict[str, Any], *, seed: str) -> None:
        self._schema, self._valid = schema, valid
        self._random = Random(seed)

    def examples(self, count: int) -> list[dict[str, Any]]:
        return [self._example() for _ in range(count)]

    def _example(self) -> dict[str, Any]:
        """Return a random object, or the valid object with or without random fields; half of them are mutated."""
        value: dict[str, Any] = self._value(self._schema, depth=self._random.randint(2, 7))
        how = self._random.choice(("random", "merged at the top", "merged", "merged", "valid"))
        if how == "merged at the top":
            value = merge_objects(self._valid, value, depth=2)
        elif how == "merged":
            value = merge_objects(self._valid, value)
        elif how == "valid":
            value = self._valid
        mutated: dict[str, Any] = self._mutate(value) if self._random.random() < 0.5 else value
        return mutated

    def _value(self, schema: Schema, depth: int) -> Any:
        """Return a value of the schema, at most `depth` objects deep."""
        random = self._random
        if schema.preserve_unknown:
            return random.choice(_ANY)
        if schema.format in _FORMATS:
            return random.choice(_FORMATS[schema.format])
        if schema.properties:
            names = sorted(set(schema.properties) - {"kind", "apiVersion"}) if depth > 0 else []
            chosen = random.sample(names, random.randint(0, min(_MAX_FIELDS, len(names))))
            return {name: self._value(schema.properties[name], depth - 1) for name in chosen}
        if schema.additional is not None:
            keys = random.sample(_WORDS, random.randint(0, _MAX_ITEMS))
            return {key: self._value(schema.additional, depth - 1) for key in keys}
        if schema.items is not None:
            return [self._value(schema.items, depth - 1) for _ in range(random.randint(0, _MAX_ITEMS))]
        return random.choice(_TYPES.get(schema.type, ({},)))

    def _mutate(self, value: Any) -> Any:
        """Replace some leaves by extreme values of their type, and remove or duplicate some parts."""
        random = self._random
        if isinstance(value, dict):
            return {key: self._mutate(part) for key, part in value.items() if random.randrange(10)}
        if isinstance(value, list):
            parts = [self._mutate(part) for part in value]
            return parts if random.randrange(4) else [*parts, *parts]
        if random.randrange(5) or isinstance(value, float) or value is None:
            return value
        return not value if isinstance(value, bool) else random.choice(_edge_values(value))


def _edge_values(value: int | str) -> tuple[int, ...] | tuple[str, ...]:
    return _EDGE_NUMBERS if isinstance(value, int) else _EDGE_TEXTS


def merge_objects(valid: Any, other: Any, depth: int | None = None) -> Any:
    """Return the union of two objects, `depth` objects deep or down to the leaves. The valid value takes precedence."""
    if depth == 0 or not (isinstance(valid, dict) and isinstance(other, dict)):
        return valid
    deeper = None if depth is None else depth - 1
    return {**other, **{key: merge_objects(value, other.get(key), deeper) for key, value in valid.items()}}
