"""Which rules hold others, and how what is missing is told."""

import pytest

from sampan.api.types.rbac_v1 import PolicyRule
from sampan.apiserver.authz.rbac import covers
from tests.apiserver.authz.building import rule


@pytest.mark.parametrize(
    ("held", "wanted", "lacking"),
    [
        ([rule("get list", "pods")], rule("get", "pods"), []),
        ([rule("get", "pods")], rule("get list", "pods"), ['{APIGroups:[""], Resources:["pods"], Verbs:["list"]}']),
        ([rule("*", "*", groups="*")], rule("get", "pods/log"), []),
        ([rule("get", "pods")], rule("*", "pods"), ['{APIGroups:[""], Resources:["pods"], Verbs:["*"]}']),
        ([rule("get", "*/log")], rule("get", "pods/log"), []),
        ([rule("get", "pods", names="a")], rule("get", "pods", names="a"), []),
        (
            [rule("get", "pods", names="a")],
            rule("get", "pods", names="a b"),
            ['{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}'],
        ),
        (
            [rule("get", "pods", names="a")],
            rule("get", "pods"),
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        ([rule("get", urls="/logs/*")], rule("get", urls="/logs/a"), []),
        (
            [rule("get", urls="/logs")],
            rule("get", urls="/logs/a"),
            ['{NonResourceURLs:["/logs/a"], Verbs:["get"]}'],
        ),
        ([rule("get", "pods"), rule("list", "pods")], rule("get list", "pods"), []),
        (
            [],
            rule("watch get", "secrets"),
            ['{APIGroups:[""], Resources:["secrets"], Verbs:["watch" "get"]}'],
        ),
    ],
)
def test_what_is_missing(held: list[PolicyRule], wanted: PolicyRule, lacking: list[str]) -> None:
    found = covers.compact(covers.missing(held, [wanted]))
    assert [covers.described(one) for one in found] == lacking
