"""Node selectors and required node affinity."""

from typing import Any

import msgspec
import pytest

from sampan.api.semantics.node_selectors import RequiredNodeAffinity, matches_node_selector
from sampan.api.types.core_v1 import Node, NodeSelector, PodSpec
from sampan.api.types.meta_v1 import ObjectMeta

NODE = Node(metadata=ObjectMeta(name="node-1", labels={"zone": "a", "cores": "8"}))


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("term", "is_match"),
    [
        (expression("zone", "In", "a", "b"), True),
        (expression("zone", "In", "b"), False),
        (expression("absent", "In", "a"), False),
        (expression("zone", "NotIn", "b"), True),
        (expression("absent", "NotIn", "b"), True),
        (expression("zone", "Exists"), True),
        (expression("zone", "DoesNotExist"), False),
        (expression("cores", "Gt", "7"), True),
        (expression("cores", "Lt", "8"), False),
        (expression("zone", "Gt", "7"), False),
        (expression("cores", "Gt", "many"), False),
        (expression("zone", "Unknown"), False),
        (field("metadata.name", "In", "node-1"), True),
        (field("metadata.name", "NotIn", "node-1"), False),
        (field("metadata.name", "In", "node-1", "node-2"), False),
        ({**expression("zone", "In", "a"), **field("metadata.name", "In", "node-2")}, False),
        ({}, False),
    ],
)
def test_node_selector_terms(term: dict[str, Any], is_match: bool) -> None:
    selector = msgspec.convert({"nodeSelectorTerms": [term]}, NodeSelector)
    assert matches_node_selector(selector, NODE) is is_match


def test_one_matching_term_is_enough() -> None:
    terms = [expression("zone", "In", "b"), expression("zone", "In", "a")]
    assert matches_node_selector(msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector), NODE)
    assert not matches_node_selector(NodeSelector(), NODE)


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.mark.parametrize(
    ("spec", "is_match"),
    [
        ({}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        (affinity(expression("zone", "Exists")), True),
        (affinity(), False),
        ({"nodeSelector": {"zone": "b"}, **affinity(expression("zone", "Exists"))}, False),
        ({"affinity": {"nodeAffinity": {}}}, True),
    ],
)
def test_required_node_affinity(spec: dict[str, Any], is_match: bool) -> None:
    assert RequiredNodeAffinity(msgspec.convert(spec, PodSpec)).matches(NODE) is is_match
