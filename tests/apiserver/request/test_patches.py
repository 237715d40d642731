"""Patches: patch types, errors, and field validation."""

from __future__ import annotations

from typing import Any

import pytest

from sampan.api.codec import json
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.schema import schemas
from sampan.api.schema.tree import from_openapi
from sampan.api.types.core_v1 import Pod
from sampan.apiserver.registry.codec import ResourceCodec
from sampan.apiserver.request import patches
from sampan.apiserver.request.call import Call, Query
from sampan.apiserver.request.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from sampan.machinery import errors

PODS = ResourceCodec(kind=GroupVersionKind(group="", version="v1", kind="Pod"), type=Pod, schema=schemas.schema_of(Pod))
GADGETS = ResourceCodec(
    kind=GroupVersionKind(group="example.com", version="v1", kind="Gadget"),
    type=None,
    schema=from_openapi(
        {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    ),
)
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "a", "labels": {"l": "1"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
GADGET = {"kind": "Gadget", "apiVersion": "example.com/v1", "metadata": {"name": "g"}, "spec": {"size": 1}}


def _apply(
    media: str, body: bytes | dict[str, Any] | list[Any], *, validation: str = "Warn", codec: ResourceCodec = PODS
) -> tuple[Any, list[str]]:
    warnings: list[str] = []
    raw = body if isinstance(body, bytes) else json.encode(body)
    patch = patches.RequestPatch(media=media, body=raw, codec=codec, validation=validation, warn=warnings.append)
    patch.decode()
    current = GADGET if codec is GADGETS else POD
    before = json.encode(current)
    try:
        return patch.apply(current), warnings
    finally:
        assert json.encode(current) == before, "the stored object is not changed"


def _call(media: str, query: str = "") -> Call:
    headers = {"Content-Type": media}
    return Call(method="PATCH", path="/", query=Query(query), headers=headers, body=b"{}")


@pytest.mark.parametrize("media", [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, f"{MERGE_PATCH}; charset=x"])
def test_the_media_type_selects_the_patch_type(media: str) -> None:
    assert patches.patch_type(_call(media), is_custom=False) == media.partition(";")[0]


@pytest.mark.parametrize(
    "media", ["", "application/json", "Application/JSON-Patch+json", "text/plain", "application/apply-patch+cbor"]
)
def test_unsupported_patch_media_types_are_rejected(media: str) -> None:
    with pytest.raises(errors.UnsupportedMediaType):
        patches.patch_type(_call(media), is_custom=False)


def test_strategic_merge_patch_of_custom_objects_is_rejected() -> None:
    with pytest.raises(errors.UnsupportedMediaType):
        patches.patch_type(_call(STRATEGIC_PATCH), is_custom=True)


def test_patch_options_are_validated_for_the_patch_type() -> None:
    with pytest.raises(errors.Invalid, match="fieldManager: Required value: is required for apply patch"):
        patches.read(_call(patches.APPLY_YAML), PODS)
    with pytest.raises(errors.Invalid, match="force: Forbidden: may not be specified for non-apply patch"):
        patches.read(_call(MERGE_PATCH, "force=true"), PODS)


def test_each_patch_type_changes_the_object() -> None:
    merged, _ = _apply(MERGE_PATCH, {"spec": {"containers": [{"name": "d", "image": "j"}]}})
    assert [container.name for container in merged.spec.containers] == ["d"]
    strategic, _ = _apply(STRATEGIC_PATCH, {"spec": {"containers": [{"name": "d", "image": "j"}]}})
    assert [container.name for container in strategic.spec.containers] == ["d", "c"]
    json_patched, _ = _apply(JSON_PATCH, [{"op": "replace", "path": "/spec/containers/0/image", "value": "k"}])
    assert json_patched.spec.containers[0].image == "k"
    custom, _ = _apply(MERGE_PATCH, {"spec": {"size": 2}}, codec=GADGETS)
    assert custom.content == {"spec": {"size": 2}}


@pytest.mark.parametrize(
    ("media", "body", "start"),
    [
        (MERGE_PATCH, b"{", "invalid JSON patch"),
        (MERGE_PATCH, b"[]", "error decoding patch: json: cannot unmarshal array into Go value of type map"),
        (MERGE_PATCH, b"null", "Invalid JSON Patch"),
        (JSON_PATCH, b"{}", "error decoding patch: json: cannot unmarshal object into Go value of type []handlers"),
        (JSON_PATCH, b"nonsense", "invalid JSON patch"),
        (STRATEGIC_PATCH, b"{", "invalid JSON patch"),
        (STRATEGIC_PATCH, b"[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (MERGE_PATCH, b"[" * 2000 + b"]" * 2000, "invalid JSON patch"),
    ],
)
def test_malformed_patches_are_rejected(media: str, body: bytes, start: str) -> None:
    with pytest.raises(errors.BadRequest) as rejected:
        _apply(media, body)
    assert rejected.value.message.startswith(start)


@pytest.mark.parametrize(
    ("media", "body", "shown", "why"),
    [
        (
            MERGE_PATCH,
            {"spec": "text"},
            '{\\"apiVersion\\":\\"v1\\"',
            "json: cannot unmarshal string into Go struct field",
        ),
        (STRATEGIC_PATCH, {"spec": {"containers": "text"}}, "map[spec:map[containers:text]]", "cannot restore slice"),
        (
            MERGE_PATCH,
            {"kind": "Secret"},
            '{\\"apiVersion\\":\\"v1\\"',
            "converting (v1.Secret) to (core.Pod): unknown",
        ),
        (
            MERGE_PATCH,
            {"apiVersion": "v7"},
            '{\\"apiVersion\\":\\"v7\\"',
            'no kind \\"Pod\\" is registered for version',
        ),
        (JSON_PATCH, [{"op": "replace", "path": "", "value": []}], "[]", "couldn't get version/kind; json parse error"),
    ],
)
def test_patches_with_invalid_results_are_rejected(media: str, body: Any, shown: str, why: str) -> None:
    with pytest.raises(errors.Invalid) as rejected:
        _apply(media, body)
    why = why.replace('\\"', '"')
    assert rejected.value.message.startswith(f' "" is invalid: patch: Invalid value: "{shown}')
    assert f'": {why}' in rejected.value.message
    assert rejected.value.details.keys() == {"causes"}


@pytest.mark.parametrize(
    "value", [{"kind": 5}, {"apiVersion": []}, {"metadata": 5}, {"metadata": {"labels": {"a": 1}}}]
)
def test_patches_of_custom_objects_with_invalid_results_are_rejected(value: dict[str, Any]) -> None:
    with pytest.raises(errors.Invalid, match=r'^ "" is invalid: patch: Invalid value: '):
        _apply(MERGE_PATCH, value, codec=GADGETS)


UNKNOWN = {"metadata": {"of": 1}, "spec": {"containers": [{"name": "c", "image": "i", "colour": 1}]}}
WARNINGS = ['unknown field "metadata.of"', 'unknown field "spec.containers[0].colour"']


@pytest.mark.parametrize("media", [MERGE_PATCH, STRATEGIC_PATCH])
def test_unknown_fields_follow_field_validation(media: str) -> None:
    assert _apply(media, UNKNOWN)[1] == WARNINGS
    assert _apply(media, UNKNOWN, validation="Ignore")[1] == []
    with pytest.raises(errors.Invalid) as rejected:
        _apply(media, UNKNOWN, validation="Strict")
    assert rejected.value.message.endswith(f"strict decoding error: {', '.join(WARNINGS)}")
    if media == STRATEGIC_PATCH:
        shown = "map[metadata:map[of:1] spec:map[containers:[map[colour:1 image:i name:c]]]]"
        assert f'patch: Invalid value: "{shown}"' in rejected.value.message


def test_unknown_fields_of_custom_objects_are_pruned_with_a_warning() -> None:
    patched, warnings = _apply(MERGE_PATCH, {"spec": {"size": 2, "weight": 3}, "other": 1}, codec=GADGETS)
    assert (patched.content, warnings) == (
        {"spec": {"size": 2}},
        ['unknown field "other"', 'unknown field "spec.weight"'],
    )


def test_warnings_about_the_patch_precede_warnings_about_the_result() -> None:
    body = b'{"metadata":{"of":1},"metadata":{"of":2}}'
    assert _apply(MERGE_PATCH, body)[1] == ['duplicate field "metadata"', 'unknown field "metadata.of"']
    operations = b'[{"op":"add","op":"add","path":"/metadata/of","value":1,"why":2}]'
    assert _apply(JSON_PATCH, operations)[1] == [
        'json patch unknown field "[0].why"',
        'json patch duplicate field "[0].op"',
        'unknown field "metadata.of"',
    ]


def test_patch_can_be_applied_to_several_objects() -> None:
    patch = patches.RequestPatch(
        media=MERGE_PATCH, body=b'{"metadata":{"labels":{"m":"2"}}}', codec=PODS, validation="Warn", warn=print
    )
    patch.decode()
    first, second = patch.apply(POD), patch.apply({**POD, "metadata": {"name": "a"}})
    assert (first.metadata.labels, second.metadata.labels) == ({"l": "1", "m": "2"}, {"m": "2"})


@pytest.mark.parametrize(
    ("media", "body", "expected"),
    [
        (JSON_PATCH, b'[{"op":"copy","from":"/a","path":"/b"}]', True),
        (JSON_PATCH, b'[{"op":"\\u0063opy","from":"/a","path":"/b"}]', True),
        (JSON_PATCH, b'[{"op":"add","path":"/b","value":1}]', False),
        (MERGE_PATCH, b'{"data":{"copy":"a"}}', False),
    ],
)
def test_patches_that_copy_values_may_grow(media: str, body: bytes, expected: bool) -> None:
    patch = patches.RequestPatch(media=media, body=body, codec=PODS, validation="Warn", warn=lambda text: None)
    patch.decode()
    assert patch.may_grow is expected
