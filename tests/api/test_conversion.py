"""Conversion between versions of a kind: compared with a real server, and lossless round trips."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sampan.api.codec import json as codec
from sampan.api.conversion import SAME_SHAPE, NoConversion, convert, convert_object
from sampan.api.conversion.autoscaling import CONDITIONS, CURRENT_METRICS
from sampan.api.resources.resource import GroupVersionKind
from sampan.api.resources.resource_table import BUILT_IN
from sampan.api.schema import schemas
from sampan.api.schema.tree import Schema
from sampan.api.scheme import type_for
from sampan.api.types import (
    apiextensions_v1,
    autoscaling_v1,
    autoscaling_v2,
    core_v1,
    events_v1,
    resource_v1,
    resource_v1beta1,
)
from sampan.api.types.base import Object, Struct
from tests.api.recordings import recorded_responses
from tests.api.schema_values import values


def objects_of(kind: type[Struct]) -> st.SearchStrategy[Any]:
    """Draw random objects of a type."""
    return values(schemas.schema_of(kind)).map(lambda value: codec.from_value(value, kind))


def read_autoscalers(reference_dir: Path, version: str, name: str, kind: type[Object]) -> list[Any]:
    """Return the recorded autoscalers of that name, in order."""
    path = f"/apis/autoscaling/{version}/"
    bodies = [
        response.body for response in recorded_responses(reference_dir, "hpas-conversions") if path in response.request
    ]
    named = [b for b in bodies if b.get("kind") == "HorizontalPodAutoscaler" and b["metadata"]["name"] == name]
    return [codec.decode(json.dumps(body).encode(), kind)[0] for body in named]


@pytest.mark.parametrize(("name", "v2_index", "v1_index"), [("b", 0, 0), ("c", 0, 0), ("c", 1, 1), ("b", 1, 1)])
def test_autoscaler_v2_to_v1_as_on_a_real_server(reference_dir: Path, name: str, v2_index: int, v1_index: int) -> None:
    v2 = read_autoscalers(reference_dir, "v2", name, autoscaling_v2.HorizontalPodAutoscaler)[v2_index]
    v1 = read_autoscalers(reference_dir, "v1", name, autoscaling_v1.HorizontalPodAutoscaler)[v1_index]
    if CONDITIONS in v1.metadata.annotations:
        v2.status.conditions[0].lastTransitionTime = "2026-01-02T03:04:05Z"
        v1.metadata.annotations[CONDITIONS] = v1.metadata.annotations[CONDITIONS].replace(
            "<time>", "2026-01-02T03:04:05Z"
        )
    converted = convert_object(v2, autoscaling_v1.HorizontalPodAutoscaler)
    assert (converted.spec, converted.status) == (v1.spec, v1.status)
    assert converted.metadata.annotations == v1.metadata.annotations


def test_autoscaler_v1_to_v2_as_on_a_real_server(reference_dir: Path) -> None:
    v1 = read_autoscalers(reference_dir, "v1", "c", autoscaling_v1.HorizontalPodAutoscaler)[1]
    v2 = read_autoscalers(reference_dir, "v2", "c", autoscaling_v2.HorizontalPodAutoscaler)[1]
    converted = convert_object(v1, autoscaling_v2.HorizontalPodAutoscaler)
    assert (converted.spec, converted.status, converted.metadata.annotations) == (v2.spec, v2.status, {})


def test_autoscaler_v1_without_a_target_gets_the_default_cpu_metric() -> None:
    converted = convert_object(autoscaling_v1.HorizontalPodAutoscaler(), autoscaling_v2.HorizontalPodAutoscaler)
    assert codec.to_value(converted.spec.metrics) == [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    ]


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a":1}', "null", '[{"type":1,"object":5}]'])
def test_malformed_autoscaler_annotations_are_dropped(text: str) -> None:
    v1 = autoscaling_v1.HorizontalPodAutoscaler()
    v1.metadata.annotations = {"autoscaling.alpha.kubernetes.io/metrics": text, CURRENT_METRICS: text, "mine": "x"}
    v1.spec.targetCPUUtilizationPercentage = 50
    converted = convert_object(v1, autoscaling_v2.HorizontalPodAutoscaler)
    assert len(converted.spec.metrics) == 1
    assert converted.metadata.annotations == {"mine": "x"}


SOURCES = {"Object": "object", "Pods": "pods", "Resource": "resource", "ContainerResource": "containerResource"}


@st.composite
def metrics(draw: st.DrawFn, part: str) -> list[Any]:
    """Draw valid metrics."""
    specs = []
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from([*SOURCES, "External"]))
        utilization = kind in ("Resource", "ContainerResource") and draw(st.booleans())
        has_value = kind in ("Object", "External") and draw(st.booleans())
        amount: dict[str, Any] = (
            {"averageUtilization": 50} if utilization else {"value" if has_value else "averageValue": "5"}
        )
        if part == "current":
            amount |= {"averageValue": "1"} if kind != "External" else {"value": "3"}
            amount |= {"value": "2"} if kind == "Object" else {}
            amount.pop("value", None) if kind == "Pods" else None
        else:
            amount["type"] = "Utilization" if utilization else "Value" if has_value else "AverageValue"
        source: dict[str, Any] = {part: amount}
        if kind in ("Resource", "ContainerResource"):
            source["name"] = "memory"
        else:
            source["metric"] = {"name": "m", "selector": {"matchLabels": {"a": "<b>"}}}
        if kind == "Object":
            source["describedObject"] = {"kind": "Service", "name": "s", "apiVersion": "v1"}
        if kind == "ContainerResource":
            source["container"] = "c"
        specs.append({"type": kind, SOURCES.get(kind, "external"): source})
    return specs


@given(
    targets=metrics("target"),
    current=metrics("current"),
    cpu=st.none() | st.integers(1, 100),
    behavior=values(schemas.definition("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior")),
    conditions=values(
        schemas.definition("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus").properties["conditions"]
    ),
)
def test_autoscaler_round_trip(targets: Any, current: Any, cpu: int | None, behavior: Any, conditions: Any) -> None:
    if cpu is not None:
        target = {"type": "Utilization", "averageUtilization": cpu}
        targets = [*targets, {"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    assume(targets)
    value = {
        "metadata": {"name": "a", "annotations": {"mine": "x"}},
        "spec": {"metrics": targets, "maxReplicas": 5, "behavior": behavior or None},
        "status": {"currentMetrics": current, "desiredReplicas": 2, "conditions": conditions},
    }
    v2 = codec.from_value(value, autoscaling_v2.HorizontalPodAutoscaler)
    v1 = convert_object(v2, autoscaling_v1.HorizontalPodAutoscaler)
    assert v1.spec.targetCPUUtilizationPercentage == cpu
    again = convert_object(v1, autoscaling_v2.HorizontalPodAutoscaler)
    if not current:  # null and [] are the same to v1
        again.status.currentMetrics = v2.status.currentMetrics
    assert again == v2


@given(objects_of(core_v1.Event))
def test_core_event_round_trip(event: core_v1.Event) -> None:
    new = convert_object(event, events_v1.Event)
    assert (new.note, new.regarding.name) == (event.message, event.involvedObject.name)
    assert convert_object(new, core_v1.Event) == event


@given(objects_of(events_v1.Event))
def test_events_k8s_io_event_round_trip(event: events_v1.Event) -> None:
    assert convert_object(convert_object(event, core_v1.Event), events_v1.Event) == event


@given(objects_of(resource_v1.ResourceClaim))
def test_resource_claim_round_trip(claim: resource_v1.ResourceClaim) -> None:
    for request in claim.spec.devices.requests or []:
        if request.exactly is not None:
            request.exactly.deviceClassName = "c"
    old = convert_object(claim, resource_v1beta1.ResourceClaim)
    assert convert_object(old, resource_v1.ResourceClaim) == claim


@given(objects_of(resource_v1.ResourceSlice))
def test_resource_slice_round_trip(resource_slice: resource_v1.ResourceSlice) -> None:
    if resource_slice.spec.nodeName == "":
        resource_slice.spec.nodeName = None
    old = convert_object(resource_slice, resource_v1beta1.ResourceSlice)
    assert [device.name for device in old.spec.devices] == [device.name for device in resource_slice.spec.devices]
    assert convert_object(old, resource_v1.ResourceSlice) == resource_slice


@given(objects_of(resource_v1beta1.ResourceClaimTemplate))
def test_v1beta1_resource_claim_template_round_trip(template: resource_v1beta1.ResourceClaimTemplate) -> None:
    new = convert_object(template, resource_v1.ResourceClaimTemplate)
    assert convert_object(new, resource_v1beta1.ResourceClaimTemplate) == template


CRD_V1 = GroupVersionKind(group="apiextensions.k8s.io", version="v1", kind="CustomResourceDefinition")
CRD_V1BETA1 = GroupVersionKind(group="apiextensions.k8s.io", version="v1beta1", kind="CustomResourceDefinition")


def test_v1beta1_crd_is_converted_to_v1() -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    stored = {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "spec": {
            "group": "example.com",
            "version": "v1",
            "scope": "Cluster",
            "validation": schema,
            "versions": [
                {"name": "v1", "served": True, "storage": True},
                {"name": "v2", "served": True, "storage": False},
            ],
            "additionalPrinterColumns": [{"name": "Size", "type": "string", "JSONPath": ".spec.size"}],
            "conversion": {
                "strategy": "Webhook",
                "conversionReviewVersions": ["v1"],
                "webhookClientConfig": {"url": "u"},
            },
            "preserveUnknownFields": False,
        },
    }
    converted = convert(stored, CRD_V1)
    columns = [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}]
    assert converted["spec"]["versions"] == [
        {"schema": schema, "additionalPrinterColumns": columns, "name": "v1", "served": True, "storage": True},
        {"schema": schema, "additionalPrinterColumns": columns, "name": "v2", "served": True, "storage": False},
    ]
    assert converted["spec"]["conversion"] == {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"url": "u"}, "conversionReviewVersions": ["v1"]},
    }
    assert "validation" not in converted["spec"]
    typed = codec.from_value(converted, apiextensions_v1.CustomResourceDefinition)
    assert codec.decode(codec.encode(typed), apiextensions_v1.CustomResourceDefinition)[1] == []


@given(objects_of(apiextensions_v1.CustomResourceDefinition))
def test_crd_round_trip(definition: apiextensions_v1.CustomResourceDefinition) -> None:
    conversion = definition.spec.conversion
    if conversion is not None and conversion.webhook is not None:
        conversion.webhook.conversionReviewVersions = ["v1"]
    definition.spec.versions = definition.spec.versions or [apiextensions_v1.CustomResourceDefinitionVersion(name="v1")]
    v1beta1 = convert(codec.to_value(definition), CRD_V1BETA1)
    v1 = convert(v1beta1, CRD_V1)
    assert codec.from_value(v1, apiextensions_v1.CustomResourceDefinition) == definition


def test_conversion_between_two_beta_versions() -> None:
    request = {"name": "r", "deviceClassName": "c", "count": 2}
    claim = {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1beta1",
        "spec": {"devices": {"requests": [request]}},
    }
    converted = convert(claim, GroupVersionKind(group="resource.k8s.io", version="v1beta2", kind="ResourceClaim"))
    assert converted["apiVersion"] == "resource.k8s.io/v1beta2"
    assert converted["spec"]["devices"]["requests"] == [{"name": "r", "exactly": {"deviceClassName": "c", "count": 2}}]
    assert claim["spec"] == {"devices": {"requests": [request]}}


def test_unsupported_conversion_raises_no_conversion() -> None:
    with pytest.raises(NoConversion):
        convert({"kind": "Pod", "apiVersion": "v1"}, GroupVersionKind(group="apps", version="v1", kind="Pod"))
    with pytest.raises(NoConversion):
        convert({"kind": "Pod", "apiVersion": "v1"}, GroupVersionKind(group="", version="v1", kind="Secret"))


@pytest.mark.parametrize(("group", "kind"), SAME_SHAPE, ids=lambda v: v)
def test_same_shape_versions_have_equal_schemas(group: str, kind: str) -> None:
    shapes = []
    for version in SAME_SHAPE[group, kind]:
        type_ = type_for(GroupVersionKind(group=group, version=version, kind=kind))
        assert type_ is not None
        shapes.append(shape(schemas.schema_of(type_), set()))
    assert all(other == shapes[0] for other in shapes)


def shape(schema: Schema, ancestors: set[str]) -> Any:
    if schema.name in ancestors:
        return schema.name.rpartition(".")[2]
    ancestors = ancestors | ({schema.name} if schema.name else set())
    return (
        schema.type,
        schema.format,
        {name: shape(child, ancestors) for name, child in schema.properties.items()},
        shape(schema.items, ancestors) if schema.items else None,
        shape(schema.additional, ancestors) if schema.additional else None,
    )


STORED = [r for gv in BUILT_IN for r in gv.resources if r.storage and r.storage != r.gvk]


@pytest.mark.parametrize("resource", STORED, ids=lambda r: f"{r.api_version} {r.plural}")
def test_every_version_converts_to_its_storage_version_and_back(resource: Any) -> None:
    kind, stored = type_for(resource.gvk), type_for(resource.storage)
    assert kind is not None
    assert stored is not None
    stored_value = convert(codec.to_value(kind()), resource.storage)
    assert stored_value["apiVersion"] == resource.storage.api_version
    assert convert(stored_value, resource.gvk)["apiVersion"] == resource.api_version
