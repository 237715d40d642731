"""Messages whose JSON form is one of their fields alone: named lists, and the unions in the schema of a CRD.

`unwrap` turns the decoded message into its JSON value, `wrap` turns the value back into the message.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from sampan.api.codec.protobuf.table import LIST_FIELD, Field
from sampan.api.codec.protobuf.wire import ProtobufError

JsonObject = dict[str, Any]


class Union(NamedTuple):
    unwrap: Callable[[JsonObject], Any]
    wrap: Callable[[Any], JsonObject]


def _schema_or_bool(value: Any) -> JsonObject:
    if isinstance(value, dict):
        return {"allows": True, "schema": value}
    if isinstance(value, bool):
        return {"allows": value}
    raise ProtobufError("boolean or JSON schema expected")


def _schema_or_list(list_field: str) -> Union:
    def unwrap(message: JsonObject) -> Any:
        return message.get(list_field) or message.get("schema")

    def wrap(value: Any) -> JsonObject:
        return {list_field if isinstance(value, list) else "schema": value}

    return Union(unwrap, wrap)


_PREFIX = "apiextensions.v1.JSONSchemaPropsOr"
_SCHEMAS: Final = {
    _PREFIX + "Bool": Union(lambda message: message.get("schema", message.get("allows", False)), _schema_or_bool),
    _PREFIX + "Array": _schema_or_list("jSONSchemas"),
    _PREFIX + "StringArray": _schema_or_list("property"),
}
_LIST: Final = Union(lambda message: message.get(LIST_FIELD, []), lambda value: {LIST_FIELD: value})


def union_of(message: str, fields: list[Field]) -> Union | None:
    if len(fields) == 1 and fields[0].name == LIST_FIELD:
        return _LIST
    return _SCHEMAS.get(message)
