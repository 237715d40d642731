"""Decoding of request bodies: media types, field validation, and errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.codec import json, protobuf
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.schema import schemas
from sampan.api.schema.tree import from_openapi
from sampan.api.types.core_v1 import ConfigMap
from sampan.apiserver.registry.codec import ResourceCodec
from sampan.apiserver.request import bodies
from sampan.apiserver.request.call import Call, Query
from sampan.machinery import errors

MAPS = ResourceCodec(
    kind=GroupVersionKind(group="", version="v1", kind="ConfigMap"), type=ConfigMap, schema=schemas.schema_of(ConfigMap)
)
GADGETS = ResourceCodec(
    kind=GroupVersionKind(group="example.com", version="v1", kind="Gadget"),
    type=None,
    schema=from_openapi(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"size": {"type": "integer", "default": 3}, "name": {"type": "string"}},
                }
            },
        }
    ),
)
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
MAP = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}}


def _call(body: bytes, media: str = JSON) -> Call:
    return Call(method="POST", path="/", query=Query(""), headers={"Content-Type": media} if media else {}, body=body)


def _read(
    body: bytes, media: str = JSON, *, validation: str = "Warn", codec: ResourceCodec = MAPS
) -> tuple[Any, list[str]]:
    call = _call(body, media)
    return bodies.read_object(call, codec, validation), call.warnings


def _rejection(body: bytes, media: str = JSON, *, validation: str = "Warn", codec: ResourceCodec = MAPS) -> str:
    with pytest.raises(errors.BadRequest) as rejected:
        _read(body, media, validation=validation, codec=codec)
    return rejected.value.message


@pytest.mark.parametrize(
    ("media", "body"),
    [
        (JSON, json.encode(MAP)),
        ("", json.encode(MAP)),
        (JSON, b'{"metadata":{"name":"a"},"data":{"k":"v"}}'),
        (JSON, b'{"kind":"","apiVersion":"","metadata":{"name":"a"},"data":{"k":"v"}}'),
        (JSON, b'{"kind":null,"metadata":{"name":"a"},"data":{"k":"v"}}'),
        (YAML, b"metadata: {name: a}\ndata: {k: v}\n"),
        (f"{YAML}; charset=utf-8", b"kind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n---\nmore: 1\n"),
        (PROTOBUF, protobuf.encode(MAP)),
    ],
    ids=["json", "no content type", "no kind", "empty kind", "null kind", "yaml", "yaml documents", "protobuf"],
)
def test_a_body_is_read_in_every_media_type(media: str, body: bytes) -> None:
    obj, warnings = _read(body, media)
    assert json.to_value(obj) == MAP
    assert warnings == []


def test_unsupported_media_types_are_rejected() -> None:
    for media in ("text/plain", "application/cbor", "nonsense"):
        with pytest.raises(errors.UnsupportedMediaType, match="accepted media types include: application/json"):
            bodies.media_type(_call(b"{}", media))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b'{"kind":"Secret","apiVersion":"v1"}',
            'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): '
            "unknown conversion",
        ),
        (
            b'{"kind":"Nothing","apiVersion":"v1"}',
            'Nothing in version "v1" cannot be handled as a ConfigMap: no kind "Nothing" is registered for version '
            '"v1" in scheme "pkg/runtime/scheme.go:111"',
        ),
        (
            b'{"kind":"ConfigMap","apiVersion":"v1","data":5}',
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct '
            "field ConfigMap.data of type map[string]string",
        ),
        (
            b"",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse "
            "error: unexpected end of JSON input (<empty>)",
        ),
        (
            b"{not json, and rather long, longer than thirty",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse "
            "error: invalid character 'n' looking for beginning of object key string ({not json, and rather long, lo "
            "...)",
        ),
        (
            b"[]",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse "
            'error: json: cannot unmarshal array into Go value of type struct { APIVersion string "json:\\"apiVersion,'
            'omitempty\\""; Kind string "json:\\"kind,omitempty\\"" } (5b5d)',
        ),
        (
            b'{"apiVersion":"a/b/c"}',
            "the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c "
            '({"apiVersion":"a/b/c"})',
        ),
    ],
    ids=["another kind", "unknown kind", "wrong field type", "empty", "malformed JSON", "list", "invalid version"],
)
def test_malformed_bodies_and_bodies_of_other_kinds_are_rejected(body: bytes, message: str) -> None:
    assert _rejection(body) == message


def test_unknown_and_duplicate_fields_follow_field_validation() -> None:
    body = b'{"metadata":{"name":"a","of":1},"data":{"k":"v"},"data":{"k":"w"}}'
    expected = ['unknown field "metadata.of"', 'duplicate field "data"']
    obj, warnings = _read(body)
    assert (obj.data, warnings) == ({"k": "w"}, expected)
    assert _read(body, validation="Ignore")[1] == []
    subject = 'ConfigMap in version "v1" cannot be handled as a ConfigMap'
    assert _rejection(body, validation="Strict") == f"{subject}: strict decoding error: {', '.join(expected)}"


def test_duplicate_yaml_keys_are_one_error_or_several_warnings() -> None:
    body = b"metadata: {name: a, of: 1}\ndata: {k: v}\ndata: {k: w}\ndata: {k: x}\n"
    lines = ['line 3: key "data" already set in map', 'line 4: key "data" already set in map']
    obj, warnings = _read(body, YAML)
    assert (obj.data, warnings) == ({"k": "x"}, [*lines, 'unknown field "metadata.of"'])
    expected = "yaml: unmarshal errors:\n" + "\n".join(f"  {line}" for line in lines)
    message = _rejection(body, YAML, validation="Strict")
    assert message.endswith(f'strict decoding error: {expected}, unknown field "metadata.of"')


def test_custom_objects_are_pruned_and_defaulted() -> None:
    body = b'{"kind":"Gadget","apiVersion":"example.com/v1","metadata":{"name":"g"},"spec":{"weight":1},"more":2}'
    obj, warnings = _read(body, codec=GADGETS)
    assert obj.content == {"spec": {"size": 3}}
    assert warnings == ['unknown field "more"', 'unknown field "spec.weight"']


def test_null_metadata_of_custom_objects_becomes_empty() -> None:
    obj, _ = _read(b'{"kind":"Gadget","apiVersion":"example.com/v1","metadata":null}', codec=GADGETS)
    assert obj.metadata.name == ""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"{}", {}),
        (b'{"kind":"DeleteOptions","apiVersion":"any/v9","gracePeriodSeconds":3}', {"gracePeriodSeconds": 3}),
        (b'{"preconditions":{"uid":"u"},"unknown":1}', {"preconditions": {"uid": "u"}}),
    ],
)
def test_delete_options_are_read(body: bytes, expected: dict[str, Any]) -> None:
    value = bodies.read_delete_options(_call(body))
    assert {key: part for key, part in value.items() if key not in ("kind", "apiVersion")} == expected


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'{"kind":"Pod","apiVersion":"v1"}', b'{"gracePeriodSeconds":"3"}', b'{"kind":5}']
)
def test_invalid_delete_options_are_rejected(body: bytes) -> None:
    with pytest.raises(errors.BadRequest):
        bodies.read_delete_options(_call(body))


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6)
fields = st.sampled_from(
    ["kind", "apiVersion", "metadata", "data", "spec", "size", "name", "labels", "finalizers", "x"]
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=4))


@settings(max_examples=300, deadline=None)
@given(value=st.dictionaries(fields, values, max_size=5) | values, is_custom=st.booleans(), cut=st.integers(0, 3))
def test_any_body_is_an_object_or_a_bad_request(value: Any, is_custom: bool, cut: int) -> None:
    body = json.encode(value)
    for sent, media in ((body, JSON), (body[: len(body) - cut], JSON), (body, YAML), (body, PROTOBUF)):
        try:
            _read(sent, media, codec=GADGETS if is_custom else MAPS)
        except errors.BadRequest:
            continue
