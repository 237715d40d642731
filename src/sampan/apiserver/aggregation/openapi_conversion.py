"""Conversion of OpenAPI v2 documents to v3, for servers that publish only v2. Pure.

The counterpart is `k8s.io/kube-openapi/pkg/openapiconv`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sampan.apiserver.aggregation.openapi_documents import encode_document, read_part

_REFERENCES = {"#/definitions/": "#/components/schemas/", "#/parameters/": "#/components/parameters/"}
_OUTSIDE_THE_SCHEMA = ("name", "in", "description", "required")
"""The keywords of a parameter that are not keywords of its schema in v3."""

Json = dict[str, Any]


def to_v3(part: bytes) -> bytes:
    """Return the v3 document for a part of a v2 document, as `openapi_documents.extract_part` returns it."""
    source = read_part(part)
    shared: Json = source["parameters"]
    components: Json = {"schemas": _rename_references(source["definitions"])}
    if parameters := {name: _parameter(value) for name, value in shared.items() if value["in"] != "body"}:
        components["parameters"] = parameters
    document = {
        "openapi": "3.0.0",
        "info": source["info"],
        "paths": {path: _path_item(item, shared) for path, item in source["paths"].items()},
        "components": components,
    }
    return encode_document(document)


def _path_item(source: Json, shared: Json) -> Json:
    item: Json = {}
    for key, value in source.items():
        item[key] = [_parameter(parameter) for parameter in value] if key == "parameters" else _operation(value, shared)
    return item


def _operation(source: Json, shared: Json) -> Json:
    produces, consumes = source.get("produces") or (), source.get("consumes") or ()
    operation = {
        key: value for key, value in source.items() if key not in ("consumes", "parameters", "produces", "schemes")
    }
    operation["responses"] = {code: _response(value, produces) for code, value in source["responses"].items()}
    for parameter in source.get("parameters") or ():
        body = shared.get(parameter.get("$ref", "").rpartition("/")[2], parameter)
        if body.get("in") == "body":
            operation["requestBody"] = _request_body(body, consumes)
        else:
            operation.setdefault("parameters", []).append(_parameter(parameter))
    return operation


def _response(source: Json, media_types: Iterable[str]) -> Json:
    response = {key: value for key, value in source.items() if key != "schema"}
    if "schema" in source:
        response["content"] = _content(source["schema"], media_types)
    return response


def _request_body(source: Json, media_types: Iterable[str]) -> Json:
    body: Json = {key: source[key] for key in ("description", "required") if key in source}
    return {**body, "content": _content(source["schema"], media_types)}


def _content(schema: Json, media_types: Iterable[str]) -> Json:
    converted = _rename_references(schema)
    return {media_type: {"schema": converted} for media_type in media_types}


def _parameter(source: Json) -> Json:
    if "$ref" in source:
        converted: Json = _rename_references(source)
        return converted
    parameter: Json = {key: source[key] for key in ("name", "in", "description", "required") if key in source}
    schema = {key: value for key, value in source.items() if key not in _OUTSIDE_THE_SCHEMA}
    return {**parameter, "schema": schema}


def _rename_references(value: Any) -> Any:
    """Return a value whose references are those of v3."""
    if isinstance(value, list):
        return [_rename_references(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _reference(item) if key == "$ref" and isinstance(item, str) else _rename_references(item)
        for key, item in value.items()
    }


def _reference(text: str) -> str:
    for old, new in _REFERENCES.items():
        if text.startswith(old):
            return new + text.removeprefix(old)
    return text
