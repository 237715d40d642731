"""The column definitions of tables, and the columns of kinds that declare none."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from sampan.api.resources.resource import GroupVersionKind
from sampan.apiserver import descriptions
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.tables import cells
from sampan.host.bounded_cache import BoundedCache

NAME = Column("Name", cells.name, format="name", field="metadata.name")
AGE = Column("Age", cells.age, field="metadata.creationTimestamp")
CREATED_AT = Column("Created At", cells.created_at, type="date", field="metadata.creationTimestamp")
GENERIC = (NAME, CREATED_AT)
"""The columns for any object."""
SCALE = (
    replace(NAME, format=""),
    Column(
        "Desired",
        lambda scale, now: scale.content["spec"].get("replicas", 0),
        type="integer",
        description="replicas is the desired number of instances for the scaled object.",
    ),
    Column(
        "Available",
        lambda scale, now: scale.content["status"]["replicas"],
        type="integer",
        description="replicas is the actual number of observed instances of the scaled object.",
    ),
    AGE,
)
"""The columns of the scale subresource of any kind."""


def definitions(columns: Sequence[Column], kind: GroupVersionKind) -> bytes:
    """Return the columnDefinitions of a table of that kind, as JSON."""
    return _definitions[tuple(columns), kind]


def _encode_definitions(columns_and_kind: tuple[tuple[Column, ...], GroupVersionKind]) -> bytes:
    columns, kind = columns_and_kind
    return msgspec.json.encode([_definition(column, kind) for column in columns])


_definitions = BoundedCache(_encode_definitions, max_entries=256, max_entry_bytes=64 << 10)


def _definition(column: Column, kind: GroupVersionKind) -> dict[str, Any]:
    published = descriptions.describe_field(kind, column.field).removesuffix(column.newer) if column.field else ""
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": published or column.description or _describe_field(column),
        "priority": int(column.wide) if column.priority is None else column.priority,
    }


def _describe_field(column: Column) -> str:
    return f"The object's {column.field}." if column.field else ""
