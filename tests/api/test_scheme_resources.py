"""The resource table, compared with the discovery documents of a real server."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sampan.api.resources import discovery, runtime_config
from sampan.api.resources.resource import Resource
from sampan.api.resources.resource_table import BUILT_IN
from sampan.api.scheme import Scheme, builtin_scheme, type_for


def read_steps(reference_dir: Path, name: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = json.loads((reference_dir / f"recordings/{name}.json").read_text())
    return steps


def to_json_value(value: object) -> Any:
    return json.loads(msgspec.json.encode(value))


def test_resource_lists_are_those_of_a_real_server(reference_dir: Path) -> None:
    scheme, compared = builtin_scheme(), 0
    for step in read_steps(reference_dir, "discovery-core") + read_steps(reference_dir, "discovery-resources"):
        body = step["body"]
        if not isinstance(body, dict) or body.get("kind") != "APIResourceList":
            continue
        group, _, version = body["groupVersion"].rpartition("/")
        assert to_json_value(discovery.api_resources(scheme.resources(group, version))) == body["resources"], step[
            "request"
        ]
        compared += 1
    assert compared == 18


def test_aggregated_discovery_is_that_of_a_real_server(reference_dir: Path) -> None:
    scheme = builtin_scheme()
    core, others = (step["body"]["items"] for step in read_steps(reference_dir, "discovery-aggregated")[:2])
    actual = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                to_json_value(discovery.version_discovery(version, scheme.resources(group, version)))
                for version in scheme.versions(group)
            ],
        }
        for group in scheme.groups()
    ]
    assert actual == core + others


def test_groups_are_in_the_order_of_a_real_server(reference_dir: Path) -> None:
    groups = next(s["body"] for s in read_steps(reference_dir, "discovery-core") if s["request"] == "GET /apis")[
        "groups"
    ]
    scheme = builtin_scheme()
    actual = [
        {"name": name, "versions": scheme.versions(name)}
        for name in scheme.groups()
        if name  # the list does not contain the core group
    ]
    assert actual == [{"name": g["name"], "versions": [v["version"] for v in g["versions"]]} for g in groups]


@pytest.mark.parametrize("resource", [r for gv in BUILT_IN for r in gv.resources], ids=lambda r: r.qualified)
def test_every_resource_has_a_type_and_a_list_type(resource: Resource) -> None:
    type_ = type_for(resource.gvk)
    assert type_ is not None
    assert type_().__class__.__name__ == resource.kind
    if "list" in resource.verbs:
        assert Scheme().type_of(resource) is type_
        assert type_for(replace(resource.gvk, kind=resource.list_kind)) is not None
    if resource.storage is not None:
        assert type_for(resource.storage) is not None


def test_parse_runtime_config() -> None:
    assert runtime_config.parse("api/all=true, batch/v1=false,resource.k8s.io/v1beta1") == {
        "api/all": True,
        "batch/v1": False,
        "resource.k8s.io/v1beta1": True,
    }
