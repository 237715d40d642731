"""Conversion of OpenAPI v2 documents to v3 documents."""

from __future__ import annotations

from typing import Any

import msgspec

from sampan.apiserver.aggregation.openapi_conversion import to_v3
from sampan.apiserver.aggregation.openapi_documents import extract_part

JSON, YAML = "application/json", "application/yaml"
FLUNDER = {"$ref": "#/definitions/Flunder"}
PATH = "/apis/a.example.com/v1/flunders"
OPERATION = {
    "operationId": "createFlunder",
    "consumes": [JSON],
    "produces": [JSON, YAML],
    "schemes": ["https"],
    "parameters": [
        {"in": "body", "name": "body", "required": True, "schema": FLUNDER},
        {"in": "query", "name": "dryRun", "type": "string", "description": "Whether to store it.", "uniqueItems": True},
        {"$ref": "#/parameters/limit"},
        {"$ref": "#/parameters/other-body"},
    ],
    "responses": {"200": {"description": "OK", "schema": FLUNDER}, "401": {"description": "Unauthorized"}},
    "x-kubernetes-action": "post",
}
DOCUMENT = {
    "swagger": "2.0",
    "info": {"title": "wardle", "version": "1"},
    "paths": {PATH: {"post": OPERATION}},
    "definitions": {
        "Flunder": {
            "type": "object",
            "properties": {"parts": {"type": "array", "items": {"$ref": "#/definitions/Part"}}},
        },
        "Part": {"type": "string"},
    },
    "parameters": {"limit": {"in": "query", "name": "limit", "type": "integer"}},
}


def _convert(document: dict[str, Any]) -> Any:
    return msgspec.json.decode(to_v3(extract_part(msgspec.json.encode(document), "a.example.com", "v1")))


def test_v2_document_is_converted_to_v3() -> None:
    converted = _convert(DOCUMENT)
    schema = {"schema": {"$ref": "#/components/schemas/Flunder"}}
    assert (converted["openapi"], converted["info"]) == ("3.0.0", {"title": "wardle", "version": "1"})
    assert converted["paths"][PATH]["post"] == {
        "operationId": "createFlunder",
        "parameters": [
            {
                "in": "query",
                "name": "dryRun",
                "description": "Whether to store it.",
                "schema": {"type": "string", "uniqueItems": True},
            },
            {"$ref": "#/components/parameters/limit"},
        ],
        "requestBody": {"required": True, "content": {JSON: schema}},
        "responses": {
            "200": {"description": "OK", "content": {JSON: schema, YAML: schema}},
            "401": {"description": "Unauthorized"},
        },
        "x-kubernetes-action": "post",
    }
    components = converted["components"]
    assert components["parameters"] == {"limit": {"in": "query", "name": "limit", "schema": {"type": "integer"}}}
    items = components["schemas"]["Flunder"]["properties"]["parts"]["items"]
    assert items == {"$ref": "#/components/schemas/Part"}


def test_shared_body_parameter_becomes_request_body() -> None:
    shared = {"in": "body", "name": "body", "schema": FLUNDER}
    operation = {**OPERATION, "parameters": [{"$ref": "#/parameters/shared"}]}
    converted = _convert({**DOCUMENT, "paths": {PATH: {"post": operation}}, "parameters": {"shared": shared}})
    assert "parameters" not in converted["paths"][PATH]["post"]
    assert "parameters" not in converted["components"]
    content = converted["paths"][PATH]["post"]["requestBody"]["content"]
    assert content == {JSON: {"schema": {"$ref": "#/components/schemas/Flunder"}}}
