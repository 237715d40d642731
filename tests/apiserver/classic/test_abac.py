"""The classic ABAC authorizer and its policy files."""

from pathlib import Path

import pytest

from sampan.apiserver.authz import Attributes, AuthzDecision
from sampan.apiserver.classic.abac import AbacAuthorizer, AbacPolicyError, read_policies
from sampan.apiserver.request.call import UserInfo
from tests.apiserver.authz.rbac_objects import ANN, attributes_of, path_attributes

V1BETA1 = '{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{%s}}'
ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))


def is_allowed(directory: Path, line: str, attributes: Attributes) -> bool:
    file = directory / "policy.jsonl"
    file.write_text(f"# a comment\n\n{line}\n")
    return AbacAuthorizer(policies=read_policies(file)).authorize(attributes).decision is AuthzDecision.ALLOW


PODS = '"user":"ann","namespace":"ns","resource":"pods","apiGroup":""'


@pytest.mark.parametrize(
    ("line", "attributes", "expected"),
    [
        (V1BETA1 % PODS, attributes_of("get", "pods", namespace="ns"), True),
        (V1BETA1 % PODS, attributes_of("get", "pods", namespace="other"), False),
        (V1BETA1 % PODS, attributes_of("get", "pods", UserInfo("ben"), namespace="ns"), False),
        (V1BETA1 % PODS, attributes_of("get", "secrets", namespace="ns"), False),
        (V1BETA1 % (PODS + ',"readonly":true'), attributes_of("watch", "pods", namespace="ns"), True),
        (V1BETA1 % (PODS + ',"readonly":true'), attributes_of("create", "pods", namespace="ns"), False),
        (V1BETA1 % '"user":"ann","nonResourcePath":"/logs/*"', path_attributes("get", "/logs/a"), True),
        (V1BETA1 % '"user":"ann","nonResourcePath":"/logs/*"', path_attributes("get", "/metrics"), False),
        (V1BETA1 % '"user":"ann","nonResourcePath":"*"', attributes_of("get", "pods"), False),
        (V1BETA1 % '"group":"team","namespace":"*","resource":"*","apiGroup":"*"', attributes_of("get", "pods"), True),
        (
            V1BETA1 % '"user":"ben","group":"team","namespace":"*","resource":"*","apiGroup":"*"',
            attributes_of("get", "pods"),
            False,
        ),
        (
            V1BETA1 % '"user":"*","namespace":"*","resource":"*","apiGroup":"*"',
            attributes_of("get", "pods", ANONYMOUS),
            False,
        ),
        (V1BETA1 % '"namespace":"*","resource":"*","apiGroup":"*"', attributes_of("get", "pods"), False),
        ('{"user":"ann"}', attributes_of("delete", "nodes", group="any"), True),
        ('{"user":"ann"}', path_attributes("get", "/metrics"), True),
        ('{"user":"ann","resource":"pods"}', attributes_of("get", "pods", namespace="ns"), True),
        ('{"user":"ann","resource":"pods"}', path_attributes("get", "/metrics"), False),
        ("{}", attributes_of("get", "pods", ANN), True),
        ("{}", attributes_of("get", "pods", ANONYMOUS), False),
    ],
)
def test_policy_allows_matching_requests(tmp_path: Path, line: str, attributes: Attributes, expected: bool) -> None:
    assert is_allowed(tmp_path, line, attributes) is expected


@pytest.mark.parametrize("line", ["nonsense", '{"apiVersion":"v1","kind":"Policy"}', '{"user":1}'])
def test_invalid_policy_line_is_reported_with_its_number(tmp_path: Path, line: str) -> None:
    with pytest.raises(AbacPolicyError, match="line 3"):
        is_allowed(tmp_path, line, attributes_of("get", "pods"))


def test_the_rules_of_a_user_can_be_listed(tmp_path: Path) -> None:
    file = tmp_path / "policies"
    start = '{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": '
    file.write_text(
        start
        + '{"user": "ann", "namespace": "ns", "resource": "pods", "apiGroup": "", "readonly": true}}\n'
        + start
        + '{"user": "ann", "namespace": "*", "nonResourcePath": "/x"}}\n'
        + start
        + '{"user": "ben", "namespace": "*", "resource": "*", "apiGroup": "*"}}\n'
    )
    authorizer = AbacAuthorizer(policies=read_policies(file))
    assert [(rule.verbs, rule.resources, rule.nonResourceURLs) for rule in authorizer.rules_for(ANN, "ns").rules] == [
        (["get", "list", "watch"], ["pods"], []),
        (["*"], [], ["/x"]),
    ]
    assert [rule.nonResourceURLs for rule in authorizer.rules_for(ANN, "other").rules] == [["/x"]]
