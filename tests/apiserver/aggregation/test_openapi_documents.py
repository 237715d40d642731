"""Selection of the used part of the OpenAPI documents of aggregated servers, and their merging."""

from typing import Any

import msgspec
import pytest

from sampan.api import limits
from sampan.apiserver.aggregation.openapi_documents import (
    GVK,
    InvalidOpenApi,
    encode_document,
    extract_part,
    merge_documents,
    v3_hash,
)
from sampan.apiserver.nonresource.openapi import v2

PREFIX = "/apis/wardle.example.com/v1/"
FLUNDER = "com.example.wardle.v1.Flunder"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def get_operation(definition: str = FLUNDER, **more: Any) -> dict[str, Any]:
    schema = {"$ref": f"#/definitions/{definition}"}
    return {"get": {"operationId": "list", "responses": {"200": {"description": "OK", "schema": schema}}, **more}}


def document(paths: Any = None, definitions: Any = None, **more: Any) -> bytes:
    paths = {f"{PREFIX}flunders": get_operation()} if paths is None else paths
    if definitions is None:
        meta = {"$ref": f"#/definitions/{META}"}
        definitions = {FLUNDER: {"type": "object", "properties": {"metadata": meta}}, META: {"type": "object"}}
    return msgspec.json.encode({"swagger": "2.0", "paths": paths, "definitions": definitions, **more})


def part_of(body: bytes) -> Any:
    part = extract_part(body, "wardle.example.com", "v1")
    return msgspec.json.decode(part) if part else None


def test_only_paths_of_the_group_version_and_their_definitions_are_kept() -> None:
    paths = {
        f"{PREFIX}flunders": get_operation(),
        "/apis/apps/v1/deployments": get_operation("Evil"),
        "/version/": get_operation("Evil"),
    }
    definitions = {FLUNDER: {"items": {"$ref": f"#/definitions/{META}"}}, META: {}, "Evil": {"type": "string"}}
    part = part_of(document(paths, definitions))
    assert list(part["paths"]) == [f"{PREFIX}flunders"]
    assert sorted(part["definitions"]) == [FLUNDER, META]


def test_document_without_paths_of_the_group_version_is_ignored() -> None:
    assert part_of(document({"/apis/apps/v1/deployments": get_operation()})) is None


def test_recursive_definition_is_kept_once() -> None:
    definitions = {FLUNDER: {"properties": {"next": {"$ref": f"#/definitions/{FLUNDER}"}}}}
    assert list(part_of(document(None, definitions))["definitions"]) == [FLUNDER]


def test_keywords_of_a_wrong_type_are_dropped() -> None:
    schema = {
        "type": 5,
        "description": ["x"],
        "properties": {"a": 7, "b": {"type": "string", "maxLength": "9", "minLength": 1}},
        "required": ["b", 3],
        "items": [],
        "additionalProperties": False,
        "unknown": 1,
        "x-kept": {"any": [1]},
    }
    paths = {f"{PREFIX}flunders": {**get_operation(parameters=[7, {"in": "cookie"}], tags="a"), "head": 3, "x": 1}}
    part = part_of(document(paths, {FLUNDER: schema}))
    assert part["definitions"][FLUNDER] == {
        "properties": {"b": {"type": "string", "minLength": 1}},
        "required": ["b"],
        "x-kept": {"any": [1]},
    }
    assert part["paths"][f"{PREFIX}flunders"]["get"]["parameters"] == []
    local = {"swagger": "2.0", "paths": {}, "definitions": {}, "parameters": {}}
    assert v2.encode(merge_documents(local, [msgspec.json.encode(part)]))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<html>", id="not JSON"),
        pytest.param(b"[]", id="not a mapping"),
        pytest.param(b'{"paths": []}', id="paths are a list"),
        pytest.param(b'{"paths": {"a": {}}, "definitions": 1}', id="definitions are a number"),
        pytest.param(b'{"paths": ' + b"[" * 100_000, id="only brackets"),
        pytest.param(
            document({f"{PREFIX}a": {"get": "deep"}}).replace(b'"deep"', b"[" * 500 + b"]" * 500),
            id="deeply nested",
        ),
        pytest.param(
            document({f"{PREFIX}a": {"get": "deep"}}).replace(b'"deep"', b"[" * 50_000 + b"]" * 50_000),
            id="nested too deeply to parse",
        ),
        pytest.param(
            document(None, {FLUNDER: {"description": "x" * (limits.MERGED_OPENAPI_BYTES + 1)}}), id="too large"
        ),
        pytest.param(document(None, {FLUNDER: {"enum": [1] * limits.MERGED_OPENAPI_VALUES}}), id="too many values"),
    ],
)
def test_malformed_or_oversized_document_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidOpenApi):
        extract_part(body, "wardle.example.com", "v1")


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ({"paths": {"apis/a/v1": {"serverRelativeURL": "/openapi/v3/apis/a/v1?hash=AB12"}}}, "AB12"),
        ({"paths": {"apis/a/v1": {"serverRelativeURL": "https://evil/?hash=<script>"}}}, ""),
        ({"paths": {"apis/a/v1": {}}}, ""),
        ({"paths": {"apis/b/v1": {}}}, None),
        ({}, None),
    ],
)
def test_v3_hash_is_read_from_the_index(index: dict[str, Any], expected: str | None) -> None:
    assert v3_hash(msgspec.json.encode(index), "apis/a/v1") == expected


@pytest.mark.parametrize("body", [b"", b"[]", b'{"paths": [1]}', b'{"paths": {"a": 1}}', b"[" * 100_000])
def test_invalid_v3_index_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidOpenApi):
        v3_hash(body, "apis/a/v1")


def local_document(**definitions: Any) -> dict[str, Any]:
    return {"swagger": "2.0", "paths": {"/version/": {}}, "definitions": definitions, "parameters": {}}


def test_equal_definitions_are_shared_and_their_kinds_collected() -> None:
    local = local_document(**{META: {"type": "object", GVK: [{"kind": "A"}]}})
    definitions = {FLUNDER: {"$ref": f"#/definitions/{META}"}, META: {"type": "object", GVK: [{"kind": "B"}]}}
    merged = merge_documents(local, [extract_part(document(None, definitions), "wardle.example.com", "v1")])
    assert merged["definitions"][META] == {"type": "object", GVK: [{"kind": "A"}, {"kind": "B"}]}
    assert local["definitions"][META][GVK] == [{"kind": "A"}], "the local document is not changed"
    assert list(merged["paths"]) == ["/version/", f"{PREFIX}flunders"]


def test_conflicting_definition_is_renamed() -> None:
    local = local_document(**{META: {"type": "object", "description": "mine"}})
    part = extract_part(document(), "wardle.example.com", "v1")
    merged = merge_documents(local, [part, part.replace(PREFIX.encode(), b"/apis/wardle.example.com/v2/")])
    assert merged["definitions"][META]["description"] == "mine"
    assert merged["definitions"][f"{META}_v2"] == {"type": "object"}
    assert f"{META}_v3" not in merged["definitions"], "the renamed definition is reused"
    assert merged["definitions"][FLUNDER]["properties"]["metadata"] == {"$ref": f"#/definitions/{META}_v2"}


def test_local_paths_take_precedence_over_aggregated_paths() -> None:
    local = local_document()
    local["paths"] = {f"{PREFIX}flunders": {"get": {"operationId": "mine"}}}
    merged = merge_documents(local, [extract_part(document(), "wardle.example.com", "v1")])
    assert merged["paths"] == local["paths"]
    assert merged["definitions"] == {}


def test_conflicting_shared_parameter_is_renamed() -> None:
    local = local_document()
    local["parameters"] = {"pretty": {"in": "query", "name": "pretty", "type": "string"}}
    paths = {
        f"{PREFIX}flunders": get_operation(parameters=[{"$ref": "#/parameters/pretty"}, {"$ref": "#/parameters/none"}])
    }
    parameters = {"pretty": {"in": "query", "name": "pretty", "type": "boolean"}}
    part = extract_part(document(paths, parameters=parameters), "wardle.example.com", "v1")
    merged = merge_documents(local, [part])
    assert merged["parameters"]["pretty_v2"]["type"] == "boolean"
    operation = merged["paths"][f"{PREFIX}flunders"]["get"]
    assert operation["parameters"] == [{"$ref": "#/parameters/pretty_v2"}]


@pytest.mark.parametrize(
    "document", [{}, {"a": {}}, {"a": {}, "b": {"c": {"d": 1}, 'e"': [2]}, "f": "g"}, {"a": 1}, {"a": {"b": {}}}]
)
def test_encode_document_equals_json_encoding(document: dict[str, Any]) -> None:
    assert encode_document(document) == msgspec.json.encode(document)
