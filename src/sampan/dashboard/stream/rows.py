"""Lists and watch events as the rows of a subscription, with as little decoding as possible: cells and objects stay the
JSON that the API server sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import UNSET, Raw, UnsetType

from sampan.machinery import errors
from sampan.machinery.client.transport import BOOKMARK, DELETED

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
JSON = "application/json"
_TABLE_ACCEPT = f"{TABLE},{JSON}"


@dataclass(frozen=True, slots=True)
class RowPage:
    rows: Sequence[tuple[str, bytes]]
    """The key and the JSON of each row."""
    columns: bytes
    """The JSON of the column definitions of a table; empty for objects."""
    resource_version: str
    continue_token: str
    remaining: int | None


@dataclass(frozen=True, slots=True)
class RowChange:
    key: str
    """The key of the row's object; empty for a bookmark."""
    row: bytes | None
    """The JSON of the row; None if the object was deleted."""
    resource_version: str


class RowReader(Protocol):
    """Decodes lists and watch events in one form: Tables or objects."""

    @property
    def accept(self) -> str:
        """The Accept header of requests for this form."""

    def page(self, body: bytes) -> RowPage: ...

    def changes(self, line: bytes) -> Sequence[RowChange]:
        """Return the changes in a watch event. Raise the ApiError of an ERROR event."""


class _ListMeta(msgspec.Struct, rename={"continue_": "continue"}):
    resourceVersion: str = ""
    continue_: str = ""
    remainingItemCount: int | None = None


class _Metadata(msgspec.Struct, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    labels: dict[str, str] | UnsetType | None = UNSET
    creationTimestamp: str | UnsetType | None = UNSET
    deletionTimestamp: str | UnsetType | None = UNSET
    ownerReferences: list[Raw] | UnsetType | None = UNSET


class _Object(msgspec.Struct, gc=False):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _TableRow(msgspec.Struct):
    cells: Raw
    object: _Object = msgspec.field(default_factory=_Object)


class _Table(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    columnDefinitions: Raw = Raw(b"[]")
    rows: list[_TableRow] | None = None


class _ObjectList(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[Raw] | None = None


class _WatchEvent(msgspec.Struct):
    type: str
    object: Raw


class _RowMetadata(msgspec.Struct, gc=False):
    labels: dict[str, str] | UnsetType | None
    creationTimestamp: str | UnsetType | None
    deletionTimestamp: str | UnsetType | None
    ownerReferences: list[Raw] | UnsetType | None


class _Row(msgspec.Struct, gc=False):
    key: str
    uid: str
    cells: Raw
    metadata: _RowMetadata


_decode_table = msgspec.json.Decoder(_Table).decode
_decode_list = msgspec.json.Decoder(_ObjectList).decode
_decode_object = msgspec.json.Decoder(_Object).decode
_decode_event = msgspec.json.Decoder(_WatchEvent).decode
_encode = msgspec.json.Encoder().encode


class TableReader:
    accept = _TABLE_ACCEPT

    def page(self, body: bytes) -> RowPage:
        table = _decode_table(body)
        rows = [_table_row(row) for row in table.rows or ()]
        meta = table.metadata
        return RowPage(
            rows, bytes(table.columnDefinitions), meta.resourceVersion, meta.continue_, meta.remainingItemCount
        )

    def changes(self, line: bytes) -> Sequence[RowChange]:
        event = _event(line)
        table = _decode_table(event.object)
        version = table.metadata.resourceVersion
        if event.type == BOOKMARK:
            versions = [row.object.metadata.resourceVersion for row in table.rows or ()]
            return [RowChange("", None, version or next(filter(None, versions), ""))]
        changes = []
        for row in table.rows or ():
            key, encoded = _table_row(row)
            is_deleted = event.type == DELETED
            changes.append(
                RowChange(key, None if is_deleted else encoded, version or row.object.metadata.resourceVersion)
            )
        return changes


class ObjectReader:
    accept = JSON

    def page(self, body: bytes) -> RowPage:
        objects = _decode_list(body)
        rows = [(_key(_decode_object(raw).metadata), bytes(raw)) for raw in objects.items or ()]
        meta = objects.metadata
        return RowPage(rows, b"", meta.resourceVersion, meta.continue_, meta.remainingItemCount)

    def changes(self, line: bytes) -> Sequence[RowChange]:
        event = _event(line)
        metadata = _decode_object(event.object).metadata
        if event.type == BOOKMARK:
            return [RowChange("", None, metadata.resourceVersion)]
        row = None if event.type == DELETED else bytes(event.object)
        return [RowChange(_key(metadata), row, metadata.resourceVersion)]


def _event(line: bytes) -> _WatchEvent:
    event = _decode_event(line)
    if event.type == "ERROR":
        raise errors.from_status(msgspec.json.decode(event.object))
    return event


def _key(metadata: _Metadata) -> str:
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name


def _table_row(row: _TableRow) -> tuple[str, bytes]:
    metadata = row.object.metadata
    key = _key(metadata)
    shown = _RowMetadata(
        metadata.labels, metadata.creationTimestamp, metadata.deletionTimestamp, metadata.ownerReferences
    )
    return key, _encode(_Row(key, metadata.uid, row.cells, shown))
