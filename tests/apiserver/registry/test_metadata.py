"""Validation of object metadata, and the fields that clients cannot set."""

from collections.abc import Mapping
from typing import Any

import pytest

from sampan.api import names
from sampan.api.types.meta_v1 import ObjectMeta, OwnerReference
from sampan.apiserver.registry import metadata
from sampan.machinery import errors


def _check_subdomain(name: str, is_prefix: bool) -> list[str]:
    return names.dns1123_subdomain(name, prefix=is_prefix)


def _validate_new(*, is_namespaced: bool = True, is_qualified: bool = True, **fields: Any) -> list[str]:
    meta = ObjectMeta(**{"name": "a", "namespace": "n", **fields})
    return [
        str(fault)
        for fault in metadata.validate_object_meta(
            meta, is_namespaced, _check_subdomain, needs_qualified_finalizers=is_qualified
        )
    ]


def _validate_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    all_metadata = [ObjectMeta(**{"name": "a", "namespace": "n", "uid": "u", **fields}) for fields in (old, new)]
    return [str(fault) for fault in metadata.validate_object_meta_update(all_metadata[1], all_metadata[0])]


def test_valid_metadata_has_no_errors() -> None:
    owner = OwnerReference(apiVersion="apps/v1", kind="Deployment", name="d", uid="1", controller=True)
    valid: dict[str, Any] = {
        "labels": {"example.com/a": "b", "c": ""},
        "annotations": {"Example.com/A": "x y"},
        "finalizers": ["example.com/f", "kubernetes", "orphan"],
        "ownerReferences": [owner],
        "generateName": "a-",
    }
    assert _validate_new(**valid) == []
    assert _validate_change(valid, valid) == []


@pytest.mark.parametrize(
    ("fields", "start"),
    [
        ({"name": ""}, "metadata.name: Required value: name or generateName is required"),
        ({"name": "A"}, 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain'),
        ({"generateName": "BA-"}, 'metadata.generateName: Invalid value: "BA-": a lowercase'),
        ({"namespace": ""}, "metadata.namespace: Required value"),
        ({"namespace": "a.b"}, 'metadata.namespace: Invalid value: "a.b"'),
        ({"generation": -1}, "metadata.generation: Invalid value: -1: must be greater than or equal to 0"),
        ({"labels": {"a": "b c"}}, 'metadata.labels: Invalid value: "b c"'),
        (
            {"annotations": {"a": "x" * (257 << 10)}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        ({"finalizers": ["a b"]}, 'metadata.finalizers: Invalid value: "a b"'),
        ({"finalizers": ["plain"]}, 'metadata.finalizers[0]: Invalid value: "plain": name is neither'),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, 'metadata.finalizers: Invalid value: ["orphan"'),
    ],
)
def test_errors_of_a_new_object(fields: dict[str, Any], start: str) -> None:
    assert _validate_new(**fields)[0].startswith(start)


def test_namespace_is_forbidden_on_cluster_scoped_objects() -> None:
    assert _validate_new(is_namespaced=False) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_finalizers_of_custom_objects_need_no_slash() -> None:
    assert _validate_new(is_qualified=False, finalizers=["plain"]) == []


def test_event_cannot_be_an_owner() -> None:
    (fault,) = _validate_new(ownerReferences=[OwnerReference(apiVersion="v1", kind="Event", name="e", uid="1")])
    shown = '{"apiVersion":"v1","kind":"Event","name":"e","uid":"1"}'
    message = "/v1, Kind=Event is disallowed from being an owner"
    assert fault == f"metadata.ownerReferences[0]: Invalid value: {shown}: {message}"


def test_update_error_is_reported_once_by_each_check() -> None:
    assert _validate_change({}, {"uid": "other"}) == ['metadata.uid: Invalid value: "other": field is immutable'] * 2
    assert len(_validate_change({}, {"labels": {"a b": ""}})) == 3
    assert len(_validate_change({}, {"finalizers": ["plain"]})) == 1
    assert len(_validate_change({}, {"finalizers": ["a b"]})) == 2


def test_finalizers_cannot_be_added_to_terminating_object() -> None:
    old = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}
    assert _validate_change(old, {**old, "finalizers": []}) == []
    faults = _validate_change(old, {**old, "finalizers": ["a/b", "x/z", "x/y"]})
    why = 'found new finalizers []string{"x/y", "x/z"}'
    assert (
        faults
        == [f"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, {why}"] * 2
    )


def test_update_keeps_creation_and_deletion_timestamps() -> None:
    old = ObjectMeta(
        uid="u",
        creationTimestamp="2026-01-01T00:00:00Z",
        deletionTimestamp="2026-01-02T00:00:00Z",
        deletionGracePeriodSeconds=3,
    )
    meta = ObjectMeta(creationTimestamp="2001-01-01T00:00:00Z", selfLink="/x")
    metadata.keep_system_fields(meta, old)
    assert meta == old
    other = ObjectMeta(uid="v", deletionGracePeriodSeconds=5)
    metadata.keep_system_fields(other, old)
    assert (other.uid, other.deletionGracePeriodSeconds) == ("v", 5), (
        "a changed uid or grace period is rejected by validation, not corrected"
    )


@pytest.mark.parametrize("name", ["a%b", "a/b", ".", ".."])
def test_names_with_path_characters_are_rejected(name: str) -> None:
    with pytest.raises(errors.BadRequest, match="Name parameter invalid: "):
        metadata.check_name_in_path(name)


def test_unusual_names_in_paths_are_accepted() -> None:
    for name in ("a", "A b", "...", "ü"):
        metadata.check_name_in_path(name)


@pytest.mark.parametrize(("text", "is_rejected"), [("", False), ("0", False), ("00", False), ("x", False), ("5", True)])
def test_resource_version_is_rejected_on_create(text: str, is_rejected: bool) -> None:
    if not is_rejected:
        metadata.refuse_version_of_new(text)
        return
    with pytest.raises(errors.ApiError, match="resourceVersion should not be set on objects to be created"):
        metadata.refuse_version_of_new(text)
