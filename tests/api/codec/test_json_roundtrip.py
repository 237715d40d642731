"""Every object that a real server sent decodes into its type and encodes back to the same JSON."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.scheme import type_for
from sampan.api.types.base import Struct
from sampan.api.types.meta_v1 import ObjectMeta, WatchEvent
from sampan.api.types.version import Info
from tests.api.recordings import recorded_responses


class RoundTrip:
    """Decodes and encodes recorded values, and counts them by type."""

    def __init__(self) -> None:
        self.counts = Counter[str]()

    def convert(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.convert_event(event) for event in value]
        if isinstance(value, dict) and "gitVersion" in value:
            return self.convert_typed(value, Info)
        if not isinstance(value, dict) or "kind" not in value:
            self.counts["other"] += 1
            return value
        kind = type_of(value)
        encoded = self.convert_custom(value) if kind is None else self.convert_typed(value, kind)
        if encoded.get("rows"):
            encoded["rows"] = [{**row, "object": self.convert(row.get("object"))} for row in encoded["rows"]]
        return encoded

    def convert_event(self, event: dict[str, Any]) -> Any:
        self.counts["events"] += 1
        encoded = self.convert_typed(event, WatchEvent)
        return {**encoded, "object": self.convert(event["object"])}

    def convert_typed(self, value: dict[str, Any], kind: type[Struct]) -> Any:
        self.counts["typed"] += 1
        self.counts["items"] += len(value.get("items") or ())
        obj, strict = codec.decode(json.dumps(value).encode(), kind)
        assert not strict
        assert isinstance(obj, kind)
        return json.loads(codec.encode(obj))

    def convert_custom(self, value: dict[str, Any]) -> Any:
        self.counts["custom"] += 1
        is_list = "continue" in value["metadata"] or "items" in value
        for item in (
            value.get("items", []) if is_list else [value]
        ):  # the metadata of custom objects is typed, although the rest is not
            meta, strict = codec.decode(json.dumps(item["metadata"]).encode(), ObjectMeta)
            assert (codec.to_value(meta), strict) == (item["metadata"], [])
        encoded, strict = codec.decode_any(json.dumps(value).encode())
        assert not strict
        return json.loads(codec.encode(encoded))


def type_of(value: dict[str, Any]) -> type[Struct] | None:
    group, _, version = value.get("apiVersion", "v1").rpartition("/")
    return type_for(GroupVersionKind(group=group, version=version, kind=value["kind"]))


def test_recorded_objects_round_trip(reference_dir: Path) -> None:
    round_trip, steps, differences = RoundTrip(), 0, []
    for response in recorded_responses(reference_dir):
        steps += 1
        name = f"{response.scenario} step {response.step} ({response.request})"
        try:
            result = response.without_ignored_paths(round_trip.convert(response.body))
        except (ValueError, AssertionError) as error:
            differences.append(f"{name}: {error}")
            continue
        if result != response.without_ignored_paths(response.body):
            differences.append(f"{name}: {first_difference(response.body, result)}")
    assert not differences, "\n".join(differences)
    assert steps == 5663
    assert round_trip.counts == {"typed": 5503, "items": 321, "events": 299, "custom": 662, "other": 139}


def first_difference(expected: Any, actual: Any, path: str = "") -> str:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *actual]:
            if expected.get(key, "absent") != actual.get(key, "absent"):
                return first_difference(expected.get(key, "absent"), actual.get(key, "absent"), f"{path}.{key}")
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for index, (a, b) in enumerate(zip(expected, actual, strict=True)):
            if a != b:
                return first_difference(a, b, f"{path}[{index}]")
    return f"{path}: wanted {expected!r}, found {actual!r}"


@pytest.mark.parametrize(("group", "kind"), [("", "Pod"), ("", "Service"), ("apps", "Deployment")])
def test_encoded_objects_start_with_kind_and_api_version(group: str, kind: str) -> None:
    gvk = GroupVersionKind(group=group, version="v1", kind=kind)
    type_ = type_for(gvk)
    assert type_ is not None
    start = f'{{"kind":"{kind}","apiVersion":"{gvk.api_version}","metadata":{{'
    assert codec.encode(type_()).startswith(start.encode())
