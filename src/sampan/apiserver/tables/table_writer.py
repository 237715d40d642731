"""Tables as JSON: of lists, single objects and watch events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sampan.api.go_compat import gotext
from sampan.api.resources.resource import GroupVersionKind
from sampan.apiserver.registry.strategy import Column
from sampan.apiserver.request.call import Call
from sampan.apiserver.request.negotiation import PARTIAL, OutputFormat
from sampan.apiserver.response import json_bytes
from sampan.apiserver.tables.columns import GENERIC, definitions
from sampan.machinery import errors

INCLUDES = ("Metadata", "Object", "None")
_encode = msgspec.json.Encoder().encode

Raw = Callable[[], bytes]
"""Returns the JSON of the object in the requested version."""


def include_of(call: Call) -> str:
    """Return the includeObject parameter: how much of the object each row contains."""
    include = call.query.get("includeObject")
    if include and include not in INCLUDES:
        why = "must be 'Metadata', 'Object', 'None', or empty"
        error = f"includeObject: Invalid value: {gotext.quote(include)}: {why}"
        raise errors.bad_request(f"Unable to convert to Table as requested: {error}")
    return include or "Metadata"


Conditions = Callable[[Any], Sequence[Mapping[str, str]]]
"""Returns the conditions of a row."""


def _no_conditions(obj: Any) -> Sequence[Mapping[str, str]]:
    return ()


class TableWriter:
    """Writes tables of one kind in one form, for one point in time.

    `list_columns` are the columns with the values of one list, for a kind whose rows depend on each other.
    """

    def __init__(
        self,
        *,
        columns: Sequence[Column],
        list_columns: Sequence[Column] = (),
        kind: GroupVersionKind,
        output_format: OutputFormat,
        include: str,
        now: float,
        conditions: Conditions = _no_conditions,
    ) -> None:
        self._columns = [column.value for column in list_columns or columns or GENERIC]
        self._definitions = definitions(columns or GENERIC, kind)
        self._opening = b'{"kind":"Table","apiVersion":"%b","metadata":' % output_format.api_version.encode()
        self._partial = json_bytes.partial_opening(output_format)
        self._include = include
        self._conditions = conditions
        self.now = now

    def row(self, obj: Any, raw: Raw) -> bytes:
        cells = _encode([value(obj, self.now) for value in self._columns])
        conditions = self._conditions(obj)
        conditions_part = b'"conditions":%b,' % _encode(conditions) if conditions else b""
        return b'{"cells":%b,%b"object":%b}' % (cells, conditions_part, self._object(raw))

    def _object(self, raw: Raw) -> bytes:
        if self._include == "Object":
            return raw()
        if self._include == "None":
            return b"null"
        return self._partial + bytes(json_bytes.raw_metadata(raw())) + b"}"

    def table(self, metadata: dict[str, Any], rows: Iterable[bytes], *, has_headers: bool = True) -> bytes:
        return self.encode_head(metadata, has_headers=has_headers) + b"[" + b",".join(rows) + b"]}"

    def encode_head(self, metadata: dict[str, Any], *, has_headers: bool = True) -> bytes:
        """Return the table up to its rows."""
        headers = self._definitions if has_headers else b"null"
        return b'%b%b,"columnDefinitions":%b,"rows":' % (self._opening, _encode(metadata), headers)


__all__ = ["INCLUDES", "PARTIAL", "TableWriter", "include_of"]
