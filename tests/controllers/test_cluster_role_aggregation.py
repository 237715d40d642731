"""Roles that gather the rules of others."""

from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.api.types.rbac_v1 import AggregationRule, ClusterRole, PolicyRule
from sampan.controllers.cluster_role_aggregation import aggregated

GET, LIST = (PolicyRule(verbs=[verb], apiGroups=[""], resources=["pods"]) for verb in ("get", "list"))


def part(name: str, *rules: PolicyRule, label: str = "a") -> ClusterRole:
    return ClusterRole(metadata=ObjectMeta(name=name, labels={"part": label}), rules=list(rules))


def whole(*labels: str) -> ClusterRole:
    selectors = [LabelSelector(matchLabels={"part": label}) for label in labels]
    meta = ObjectMeta(name="whole", labels={"part": "a"})
    return ClusterRole(metadata=meta, aggregationRule=AggregationRule(clusterRoleSelectors=selectors), rules=[LIST])


def test_rules_come_in_the_order_of_names_and_once() -> None:
    assert aggregated(whole("a"), [part("z", LIST), part("b", GET), part("c", GET)]) == [GET, LIST]


def test_selectors_are_taken_in_their_order() -> None:
    assert aggregated(whole("b", "a"), [part("x", GET), part("y", LIST, label="b")]) == [LIST, GET]


def test_a_role_is_no_part_of_itself() -> None:
    role = whole("a")
    assert aggregated(role, [role, part("x", GET)]) == [GET]
