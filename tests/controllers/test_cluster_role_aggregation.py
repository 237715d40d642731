"""Aggregation of the rules of cluster roles."""

from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.api.types.rbac_v1 import AggregationRule, ClusterRole, PolicyRule
from sampan.controllers.cluster_role_aggregation import aggregate_rules

GET, LIST = (PolicyRule(verbs=[verb], apiGroups=[""], resources=["pods"]) for verb in ("get", "list"))


def selected_role(name: str, *rules: PolicyRule, label: str = "a") -> ClusterRole:
    return ClusterRole(metadata=ObjectMeta(name=name, labels={"part": label}), rules=list(rules))


def aggregated_role(*labels: str) -> ClusterRole:
    selectors = [LabelSelector(matchLabels={"part": label}) for label in labels]
    meta = ObjectMeta(name="whole", labels={"part": "a"})
    return ClusterRole(metadata=meta, aggregationRule=AggregationRule(clusterRoleSelectors=selectors), rules=[LIST])


def test_rules_are_sorted_by_role_name_without_duplicates() -> None:
    assert aggregate_rules(
        aggregated_role("a"), [selected_role("z", LIST), selected_role("b", GET), selected_role("c", GET)]
    ) == [GET, LIST]


def test_rules_follow_the_order_of_the_selectors() -> None:
    assert aggregate_rules(
        aggregated_role("b", "a"), [selected_role("x", GET), selected_role("y", LIST, label="b")]
    ) == [LIST, GET]


def test_aggregated_role_does_not_include_itself() -> None:
    role = aggregated_role("a")
    assert aggregate_rules(role, [role, selected_role("x", GET)]) == [GET]
