"""Conflicts between a configuration and the changes of others, for `kubectl apply --overwrite=false`."""

from typing import Any

import pytest

from sampan.kubectl.commands.apply.patcher import has_conflict
from sampan.kubectl.objects.patch_metadata import built_in_schema


def containers(*items: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": list(items)}}


@pytest.mark.parametrize(
    ("patch", "changes", "expected"),
    [
        ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"b": "1"}}}, False),
        ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"a": "1"}}}, False),
        ({"metadata": {"labels": {"a": "1"}}}, {"metadata": {"labels": {"a": "2"}}}, True),
        ({"metadata": {"labels": {"a": None}}}, {"metadata": {"labels": {"a": "2"}}}, True),
        (containers({"name": "a", "image": "x"}), containers({"name": "b", "image": "y"}), False),
        (containers({"name": "a", "image": "x"}), containers({"name": "a", "image": "y"}), True),
        (containers({"name": "a", "args": ["x"]}), containers({"name": "a", "args": ["y"]}), True),
        ({"metadata": {"finalizers": ["x"]}}, {"metadata": {"finalizers": ["y"]}}, False),
    ],
)
def test_has_conflict(patch: dict[str, Any], changes: dict[str, Any], expected: bool) -> None:
    schema = built_in_schema("v1", "Pod")
    assert schema is not None
    assert has_conflict(patch, changes, schema) is expected
