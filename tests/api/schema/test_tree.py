"""The schema trees: equal to the definitions that a real server publishes, with shared nodes."""

import json
from pathlib import Path
from typing import Any

import pytest

from sampan.api.schema import openapi, schemas
from sampan.api.schema.tree import from_openapi


def test_definitions_are_published_as_by_a_real_server(reference_dir: Path) -> None:
    published: dict[str, Any] = json.loads((reference_dir / "openapi-v3-schemas.json").read_text())
    assert len(published) == 624
    for name, expected in published.items():
        actual = openapi.definition(schemas.definition(name))
        assert actual == _wrap_references(expected), name


def _wrap_references(node: dict[str, Any]) -> dict[str, Any]:
    """Return the definition with each bare $ref of the reference file as allOf, which means the same."""
    fields = {name: _wrap_reference(field) for name, field in node.get("properties", {}).items()}
    return {**node, "properties": fields} if fields else node


def _wrap_reference(field: dict[str, Any]) -> dict[str, Any]:
    return {"allOf": [field]} if list(field) == ["$ref"] else field


def test_references_share_the_fields_of_a_definition() -> None:
    pod = schemas.definition("io.k8s.api.core.v1.Pod")
    assert schemas.definition("io.k8s.api.core.v1.Pod") is pod
    template = schemas.definition("io.k8s.api.core.v1.PodTemplateSpec")
    assert template.properties["spec"].properties is pod.properties["spec"].properties


def test_list_and_patch_attributes_belong_to_the_field() -> None:
    spec = schemas.definition("io.k8s.api.core.v1.PodSpec").properties
    containers = spec["containers"]
    assert (containers.list_type, containers.list_keys, containers.patch_key) == ("map", ("name",), "name")
    assert containers.patch_strategy == ("merge",)
    assert spec["volumes"].patch_strategy == ("merge", "retainKeys")
    assert containers.items is not None
    ports = containers.items.properties["ports"]
    assert ports.list_keys == ("containerPort", "protocol")
    assert ports.items is not None
    assert ports.items.properties["protocol"].default == "TCP"
    budget = schemas.definition("io.k8s.api.policy.v1.PodDisruptionBudgetSpec").properties["selector"]
    assert (budget.type, budget.patch_strategy) == ("object", ("replace",))


@pytest.mark.parametrize(
    ("definition", "field", "type", "format"),
    [
        ("core.v1.ResourceFieldSelector", "divisor", "string", "quantity"),
        ("core.v1.ServicePort", "targetPort", "", "int-or-string"),
        ("core.v1.Event", "eventTime", "string", "micro-time"),
        ("core.v1.Event", "lastTimestamp", "string", "date-time"),
        ("core.v1.Event", "count", "integer", "int32"),
        ("certificates.v1.CertificateSigningRequestSpec", "request", "string", "byte"),
    ],
)
def test_types_and_formats_of_scalars(definition: str, field: str, type: str, format: str) -> None:
    schema = schemas.definition(f"io.k8s.api.{definition}").properties[field]
    assert (schema.type, schema.format) == (type, format)


def test_recursive_schema() -> None:
    props = schemas.definition("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    assert props.properties["not"].properties is props.properties
    items = props.properties["items"]
    assert (items.type, items.properties.keys()) == ("", props.properties.keys())


def test_unknown_definition_raises_key_error() -> None:
    with pytest.raises(KeyError):
        schemas.definition("io.k8s.api.core.v1.Chair")


def test_versions_disabled_by_default_have_schemas() -> None:
    toleration = schemas.definition("io.k8s.api.resource.v1beta1.DeviceToleration")
    assert toleration.properties["operator"].default == "Equal"


def test_schema_of_a_custom_resource() -> None:
    schema = from_openapi(
        {
            "type": "object",
            "properties": {
                "size": {"x-kubernetes-int-or-string": True, "default": 1},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                },
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "nullable": True},
            },
            "required": ["size"],
        }
    )
    assert schema.properties["size"].is_int_or_string
    assert schema.properties["parts"].list_keys == ("name",)
    assert schema.properties["labels"].is_map
    assert schema.child("nothing") is None
    assert schema.properties["free"].preserve_unknown
    assert schema.required == ("size",)
