from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import PersistentVolumeClaim, ResourceQuota
from sampan.machinery.quota import claim_scope, is_in_scope, pod_scope
from tests.apiserver.pods import pod, spec_with_container

WITH_REQUESTS = spec_with_container(resources={"requests": {"cpu": "1"}})
CROSS_NAMESPACE_AFFINITY = {
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"topologyKey": "x", "namespaces": ["other"]}}
            ]
        }
    }
}


def quota(*scopes: str, terms: list[dict[str, Any]] | None = None) -> ResourceQuota:
    spec = {"scopes": list(scopes), **({"scopeSelector": {"matchExpressions": terms}} if terms else {})}
    return codec.from_value({"spec": spec}, ResourceQuota)


@pytest.mark.parametrize(
    ("scopes", "spec", "is_in"),
    [
        ((), {}, True),
        (("BestEffort",), {}, True),
        (("BestEffort",), WITH_REQUESTS, False),
        (("NotBestEffort",), WITH_REQUESTS, True),
        (("Terminating",), {}, False),
        (("Terminating",), {"activeDeadlineSeconds": 0}, True),
        (("NotTerminating",), {"activeDeadlineSeconds": 5}, False),
        (("Terminating", "NotBestEffort"), {"activeDeadlineSeconds": 5}, False),
        (("PriorityClass",), {"priorityClassName": "high"}, True),
        (("PriorityClass",), {}, False),
        (("CrossNamespacePodAffinity",), CROSS_NAMESPACE_AFFINITY, True),
        (("CrossNamespacePodAffinity",), {}, False),
        (("VolumeAttributesClass",), {}, False),
    ],
)
def test_scopes_of_pods(scopes: tuple[str, ...], spec: dict[str, Any], is_in: bool) -> None:
    assert is_in_scope(quota(*scopes), pod(spec), pod_scope) is is_in


@pytest.mark.parametrize(
    ("operator", "values", "name", "is_in"),
    [
        ("In", ["high", "low"], "high", True),
        ("In", ["low"], "high", False),
        ("In", ["low"], "", False),
        ("NotIn", ["low"], "high", True),
        ("NotIn", ["high"], "high", False),
        ("NotIn", ["high"], "", True),
        ("Exists", [], "high", True),
        ("DoesNotExist", [], "high", False),
        ("DoesNotExist", [], "", True),
    ],
)
def test_scope_selector_for_priority_classes(operator: str, values: list[str], name: str, is_in: bool) -> None:
    term = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    assert is_in_scope(quota(terms=[term]), pod({"priorityClassName": name}), pod_scope) is is_in


def test_claim_matches_its_desired_and_current_volume_attributes_class() -> None:
    term = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}
    for value, is_in in (
        ({"spec": {"volumeAttributesClassName": "gold"}}, True),
        ({"spec": {"volumeAttributesClassName": "tin"}, "status": {"currentVolumeAttributesClassName": "gold"}}, True),
        ({"spec": {"volumeAttributesClassName": "tin"}}, False),
        ({}, False),
    ):
        assert is_in_scope(quota(terms=[term]), codec.from_value(value, PersistentVolumeClaim), claim_scope) is is_in
