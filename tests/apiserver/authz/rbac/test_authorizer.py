"""The RBAC authorizer: rules, bindings, and the reasons of decisions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.authz import Attributes, AuthzDecision
from sampan.apiserver.authz.rbac import RbacAuthorizer, RbacIndex
from sampan.apiserver.request.call import UserInfo
from tests.apiserver.authz.rbac_objects import ANN, attributes_of, binding, index_of, path_attributes, role, rule


def is_allowed(index: RbacIndex, attributes: Attributes) -> bool:
    return RbacAuthorizer(index=index).authorize(attributes).decision is AuthzDecision.ALLOW


@pytest.mark.parametrize(
    ("given_rule", "attributes", "expected"),
    [
        (rule("get", "pods"), attributes_of("get", "pods"), True),
        (rule("get", "pods"), attributes_of("list", "pods"), False),
        (rule("*", "pods"), attributes_of("impersonate-on:user-info:get", "pods"), True),
        (rule("get", "pods"), attributes_of("get", "pods/log"), False),
        (rule("get", "pods/log"), attributes_of("get", "pods/log"), True),
        (rule("get", "*/log"), attributes_of("get", "pods/log"), True),
        (rule("get", "*/log"), attributes_of("get", "pods"), False),
        (rule("get", "*"), attributes_of("get", "pods/log"), True),
        (rule("get", "pods/*"), attributes_of("get", "pods/log"), False),
        (rule("get", "pods"), attributes_of("get", "pods", group="metrics.k8s.io"), False),
        (rule("get", "pods", groups="*"), attributes_of("get", "pods", group="metrics.k8s.io"), True),
        (rule("get", "pods", names="a b"), attributes_of("get", "pods", name="b"), True),
        (rule("get", "pods", names="a b"), attributes_of("get", "pods", name="c"), False),
        (rule("get", "pods", names="a b"), attributes_of("get", "pods"), False),
        (rule("get", urls="/logs/*"), path_attributes("get", "/logs/a/b"), True),
        (rule("get", urls="/logs/*"), path_attributes("get", "/logs"), False),
        (rule("get", urls="/version"), path_attributes("get", "/version"), True),
        (rule("get", urls="/version"), path_attributes("post", "/version"), False),
        (rule("get", urls="*"), path_attributes("get", "/anything"), True),
        (rule("get", "*"), path_attributes("get", "/version"), False),
    ],
)
def test_rule_allows_matching_requests(given_rule: PolicyRule, attributes: Attributes, expected: bool) -> None:
    index = index_of(role("r", given_rule), binding("b", "r", "User ann"))
    assert is_allowed(index, attributes) is expected


@pytest.mark.parametrize(
    ("subject", "user", "expected"),
    [
        ("User ann", ANN, True),
        ("Group team", ANN, True),
        ("Group ann", ANN, False),
        ("User team", ANN, False),
        ("ServiceAccount ns/robot", UserInfo("system:serviceaccount:ns:robot"), True),
        ("ServiceAccount robot", UserInfo("system:serviceaccount:here:robot"), True),
        ("ServiceAccount other/robot", UserInfo("system:serviceaccount:ns:robot"), False),
    ],
)
def test_role_binding_grants_only_its_subjects_in_its_namespace(subject: str, user: UserInfo, expected: bool) -> None:
    index = index_of(role("r", rule("get", "pods")), binding("b", "r", subject, namespace="here"))
    assert is_allowed(index, attributes_of("get", "pods", user, namespace="here")) is expected
    assert not is_allowed(index, attributes_of("get", "pods", user, namespace="there"))
    assert not is_allowed(index, attributes_of("get", "pods", user))


def test_role_and_cluster_role_of_the_same_name_are_distinct() -> None:
    index = index_of(
        role("r", rule("get", "pods")),
        role("r", rule("list", "pods"), namespace="ns"),
        binding("b", "r", "User ann", namespace="ns", kind="Role"),
    )
    assert is_allowed(index, attributes_of("list", "pods", namespace="ns"))
    assert not is_allowed(index, attributes_of("get", "pods", namespace="ns"))


def test_the_reason_names_binding_role_and_subject() -> None:
    authorizer = RbacAuthorizer(
        index=index_of(role("r", rule("get", "pods")), binding("b", "r", "Group team", namespace="ns"))
    )
    reason = 'RBAC: allowed by RoleBinding "b/ns" of ClusterRole "r" to Group "team"'
    assert authorizer.authorize(attributes_of("get", "pods", namespace="ns")).reason == reason


def test_a_missing_role_is_reported() -> None:
    index = index_of(binding("b", "gone", "User ann"), binding("c", "lost", "User ann", namespace="ns", kind="Role"))
    decision = RbacAuthorizer(index=index).authorize(attributes_of("get", "pods", namespace="ns"))
    gone, lost = (f'{kind}.rbac.authorization.k8s.io "{name}" not found' for kind, name in _MISSING)
    assert (decision.decision, decision.reason) == (AuthzDecision.NO_OPINION, f"RBAC: [{gone}, {lost}]")


_MISSING = (("clusterrole", "gone"), ("role", "lost"))


def test_index_changes_take_effect_at_once() -> None:
    index = index_of(role("r", rule("get", "pods")), binding("b", "r", "User ann"))
    assert is_allowed(index, attributes_of("get", "pods"))
    index.put(role("r", rule("list", "pods")))
    assert not is_allowed(index, attributes_of("get", "pods"))
    index.put(binding("b", "r", "User ben"))
    assert not is_allowed(index, attributes_of("list", "pods"))
    assert is_allowed(index, attributes_of("list", "pods", UserInfo("ben")))
    index.drop("ClusterRoleBinding", "", "b")
    assert not is_allowed(index, attributes_of("list", "pods", UserInfo("ben")))


def test_replace_removes_deleted_bindings_from_the_index() -> None:
    kept, gone = binding("kept", "r", "User ann"), binding("gone", "r", "User ben")
    index = index_of(role("r", rule("get", "pods")), kept, gone, binding("b", "r", "User cy", namespace="ns"))
    index.replace("ClusterRoleBinding", [kept])
    assert is_allowed(index, attributes_of("get", "pods"))
    assert not is_allowed(index, attributes_of("get", "pods", UserInfo("ben")))
    assert is_allowed(index, attributes_of("get", "pods", UserInfo("cy"), namespace="ns"))


_words = st.sampled_from(["*", "a", "b"])
_rules = st.builds(
    PolicyRule,
    verbs=st.lists(_words, min_size=1, max_size=2),
    apiGroups=st.lists(_words, min_size=1, max_size=2),
    resources=st.lists(st.sampled_from(["*", "a", "b", "a/x", "*/x"]), min_size=1, max_size=2),
    resourceNames=st.lists(st.sampled_from(["a", "b"]), max_size=2),
)


@given(st.lists(_rules, max_size=4), st.tuples(*[st.sampled_from("ab")] * 4), st.booleans())
def test_index_agrees_with_direct_evaluation_of_rules(
    rules: list[PolicyRule], words: tuple[str, ...], sub: bool
) -> None:
    verb, group, resource, name = words
    attributes = attributes_of(verb, f"{resource}/x" if sub else resource, group=group, name=name)
    index = index_of(role("r", *rules), binding("b", "r", "User ann"))
    assert is_allowed(index, attributes) is any(_allows(rule, attributes) for rule in rules)


def _allows(rule: PolicyRule, attributes: Attributes) -> bool:
    resources = {"*", attributes.whole_resource} | (
        {f"*/{attributes.subresource}"} if attributes.subresource else set()
    )
    return (
        bool({"*", attributes.verb} & set(rule.verbs or ()))
        and bool({"*", attributes.group} & set(rule.apiGroups))
        and bool(resources & set(rule.resources))
        and (not rule.resourceNames or attributes.name in rule.resourceNames)
    )
