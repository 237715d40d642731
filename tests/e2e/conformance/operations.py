"""Checks that the conformance tests of many kinds share: a resource is in the three discovery documents, and its
objects support all API operations."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.e2e.conformance.api import Api, ApiError, Objects, Value, contains, version_of

VERBS = {"create", "get", "list", "watch", "update", "patch", "delete", "deletecollection"}
MARKS = {"patched": "true", "updated": "true"}
PART_VERBS = {"get", "update", "patch"}


def check_discovery(api: Api, group: str, plural: str, subresources: Sequence[str] = (), version: str = "v1") -> None:
    """Check that the resource is in /apis, /apis/GROUP and /apis/GROUP/VERSION, with every verb."""
    groups = {group["name"]: group for group in api.get("/apis")["groups"]}
    for api_group in (groups[group], api.get(f"/apis/{group}")):
        assert {"groupVersion": f"{group}/{version}", "version": version} in api_group["versions"]
    rows = {row["name"]: set(row["verbs"]) for row in api.get(f"/apis/{group}/{version}")["resources"]}
    assert rows[plural] >= VERBS
    for part in subresources:
        assert rows[f"{plural}/{part}"] >= PART_VERBS


def check_api_operations(
    api: Api, group: str, plural: str, *, subresources: Sequence[str] = (), names: Sequence[str] = (), **content: Any
) -> Objects:
    """Check all operations except those of subresources. The three objects have names of the test's own unless `names`
    is given."""
    check_discovery(api, group, plural, subresources)
    objects = api.for_resource(plural, f"{group}/v1")
    mine = {"e2e": api.namespace}
    selector, names = f"e2e={api.namespace}", list(names) or [f"{api.namespace}-{number}" for number in range(3)]
    created = [objects.create(name, mine, **content) for name in names]
    with pytest.raises(ApiError) as refused:
        objects.create(names[0], mine, **content)
    assert (refused.value.code, refused.value.reason) == (409, "AlreadyExists")
    got = objects.get(names[0])
    assert got["metadata"]["uid"] == created[0]["metadata"]["uid"]
    assert objects.names(selector) == sorted(names)
    _check_changes_are_watched(api, objects, got, selector)
    objects.delete(names[0])
    assert objects.is_gone(names[0])
    assert objects.names(selector) == sorted(names[1:])
    objects.delete_all(selector)
    assert objects.names(selector) == []
    return objects


def _check_changes_are_watched(api: Api, objects: Objects, got: Value, selector: str) -> None:
    name, since = got["metadata"]["name"], api.get(objects.collection_path)["metadata"]["resourceVersion"]
    with objects.watch(resourceVersion=since, labelSelector=selector) as events:
        patched = objects.patch(name, {"metadata": {"annotations": {"patched": "true"}}})
        assert patched["metadata"]["annotations"]["patched"] == "true"
        assert version_of(patched) > version_of(got)
        updated = objects.change(name, lambda obj: _annotate(obj, "updated"))
        assert updated["metadata"]["annotations"] == {**got["metadata"].get("annotations", {}), **MARKS}
        for expected in (patched, updated):
            events.wait_for("MODIFIED", lambda obj, expected=expected: obj["metadata"] == expected["metadata"])


def _annotate(obj: Value, mark: str) -> None:
    obj["metadata"].setdefault("annotations", {})[mark] = "true"


def check_subresource(
    objects: Objects, name: str, part: str, patch: Value, add: Callable[[Value], None], *, allows_metadata: bool = True
) -> Value:
    """Get, patch and update a subresource, and return the object. `patch` is a patch of the status, and `add` changes
    the status. Unless `allows_metadata`, only the status may change there."""
    obj, got = objects.get(name), objects.get(name, part)
    assert (got["kind"], got["metadata"]["uid"]) == (obj["kind"], obj["metadata"]["uid"])
    mark = f"patched{part}"
    patched = objects.patch(name, {"metadata": {"annotations": {mark: "true"}}, "status": patch}, part)
    assert (mark in patched["metadata"].get("annotations", {})) is allows_metadata
    assert contains(patched["status"], patch)
    updated = objects.change(name, lambda obj: add(obj["status"]), part)
    _check_kept(objects.get(name, part)["status"], {key: updated["status"][key] for key in patch})
    return updated


def _check_kept(obj: Value, change: Value) -> None:
    """Check that the change is still in the status; controllers may have added other fields."""
    for condition in change.pop("conditions", []):
        assert condition in obj["conditions"]
    assert contains(obj, change)
