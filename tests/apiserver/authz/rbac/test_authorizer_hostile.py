"""What users can make the RBAC authorizer keep in memory, and roles that are expensive to evaluate."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from sampan.api import limits
from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.authz import AuthzDecision
from sampan.apiserver.authz.rbac import RbacAuthorizer
from sampan.apiserver.request.call import UserInfo
from tests.apiserver.authz.rbac_objects import ANN, attributes_of, binding, index_of, role, rule

MIB = 1 << 20


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("length", [10, 100, 100_000])
def test_namespaces_without_bindings_are_not_cached(length: int) -> None:
    authorizer = RbacAuthorizer(index=index_of(role("r", rule("get", "pods")), binding("b", "r", "User ann")))
    before, _ = tracemalloc.get_traced_memory()
    for number in range(2000):
        namespace = f"{number}-{'n' * length}"
        assert authorizer.authorize(attributes_of("list", "pods", namespace=namespace)).decision is not None
    assert tracemalloc.get_traced_memory()[0] - before < MIB


@pytest.mark.usefixtures("traced")
def test_users_with_very_many_groups_are_not_cached() -> None:
    bindings = (binding("b", "r", "Group g7"), binding("b", "r", "Group g7", namespace="team"))
    authorizer = RbacAuthorizer(index=index_of(role("r", rule("get", "pods")), *bindings))
    before, _ = tracemalloc.get_traced_memory()
    for number in range(30):
        user = UserInfo(f"u{number}", groups=tuple(f"g{at}" for at in range(limits.REVIEWED_GROUPS)))
        result = authorizer.authorize(attributes_of("get", "pods", user, namespace="team"))
        assert result.decision is AuthzDecision.ALLOW
    assert tracemalloc.get_traced_memory()[0] - before < 2 * MIB


@pytest.mark.usefixtures("traced")
def test_many_bindings_share_the_rules_of_a_large_role() -> None:
    resources = [f"r{number}" for number in range(20_000)]
    large = role("large", PolicyRule(verbs=["get"], apiGroups=[""], resources=resources), namespace="team")
    bindings = [binding(f"b{number}", "large", "Group team", namespace="team", kind="Role") for number in range(300)]
    authorizer = RbacAuthorizer(index=index_of(large, *bindings))
    before, _ = tracemalloc.get_traced_memory()
    for number in range(20):
        user = UserInfo(f"u{number}", groups=("team",))
        assert authorizer.authorize(attributes_of("get", "r7", user, namespace="team")).reason.endswith('"team"')
    assert tracemalloc.get_traced_memory()[0] - before < 10 * MIB
    resolved = authorizer.rules_for(ANN, "team")
    assert (len(resolved.rules), resolved.is_complete) == (0, False)


def test_rules_of_a_user_are_listed_up_to_a_limit() -> None:
    rules = [rule("get list", f"r{number}") for number in range(100)]
    bindings = [binding(f"b{number}", "r", "User ann", namespace="team", kind="Role") for number in range(100)]
    authorizer = RbacAuthorizer(index=index_of(role("r", *rules, namespace="team"), *bindings))
    resolved = authorizer.rules_for(ANN, "team")
    assert len(resolved.rules) == limits.RESOLVED_RULE_WORDS // 5
    assert not resolved.is_complete
    assert [*resolved.errors] == ["there are too many rules to list all of them"]


@pytest.mark.usefixtures("traced")
def test_errors_about_missing_roles_are_short() -> None:
    bindings = [binding(f"b{number}", f"{number}{'r' * 100_000}", "User ann", namespace="team") for number in range(50)]
    authorizer = RbacAuthorizer(index=index_of(*bindings))
    result = authorizer.authorize(attributes_of("get", "pods", namespace="team"))
    assert 1000 < len(result.reason) < 3 * limits.RBAC_ERROR_CHARACTERS


def test_cached_grants_follow_changes_of_roles() -> None:
    index = index_of(role("r", rule("get", "pods")), binding("b", "r", "User ann"))
    authorizer = RbacAuthorizer(index=index)
    assert authorizer.authorize(attributes_of("get", "pods")).decision is AuthzDecision.ALLOW
    index.put(role("r", rule("get", "nodes")))
    assert authorizer.authorize(attributes_of("get", "pods")).decision is not AuthzDecision.ALLOW
    assert authorizer.authorize(attributes_of("get", "nodes")).decision is AuthzDecision.ALLOW
    index.drop("ClusterRoleBinding", "", "b")
    assert authorizer.authorize(attributes_of("get", "nodes")).decision is not AuthzDecision.ALLOW
