"""Table columns of a custom resource, from the additionalPrinterColumns of its definition
(`k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from sampan.api import ages, times
from sampan.api.types.apiextensions_v1 import CustomResourceColumnDefinition
from sampan.api.unstructured import Unstructured
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.tables import cells
from sampan.apiserver.tables.columns import NAME
from sampan.machinery.jsonpath import JsonPathError, JsonPathTemplate, text_of

log = logging.getLogger(__name__)

AGE = Column("Age", cells.age, type="date", field="metadata.creationTimestamp")
"""The column of a version that declares none."""


def columns_of(definitions: Sequence[CustomResourceColumnDefinition], resource: str) -> Sequence[Column]:
    """Return the columns of a version. With an invalid path it has the generic columns of every kind."""
    try:
        return (NAME, *(_column(definition) for definition in definitions)) if definitions else (NAME, AGE)
    except JsonPathError as error:
        log.warning(
            "custom resource %s has an invalid printer column, showing the generic columns: %s", resource, error
        )
        return ()


def _column(definition: CustomResourceColumnDefinition) -> Column:
    path = JsonPathTemplate(f"{{{definition.jsonPath}}}")
    shown = f"Custom resource definition column (in JSONPath format): {definition.jsonPath}"
    return Column(
        definition.name,
        _cell(path, definition.type),
        type=definition.type,
        format=definition.format,
        wide=definition.priority > 0,
        description=definition.description or shown,
        priority=definition.priority,
    )


def _cell(path: JsonPathTemplate, column_type: str) -> Callable[[Any, float], Any]:
    convert: Callable[[Any, float], Any] = _CONVERSIONS.get(column_type, _text)

    def value(obj: Any, now: float) -> Any:
        try:
            results = path.find(obj.to_value() if isinstance(obj, Unstructured) else obj)
        except JsonPathError:  # an index out of bounds, for example
            return None
        selected = results[0][0] if results and results[0] else None
        return convert(selected, now) if selected is not None else None

    return value


def _text(value: Any, now: float) -> str:
    return text_of(value)


def _integer(value: Any, now: float) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: Any, now: float) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, now: float) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: float) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        times.parse_time(value)
    except ValueError:
        return "<invalid>"
    return ages.age(value, now)


_CONVERSIONS: dict[str, Callable[[Any, float], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
