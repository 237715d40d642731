"""Policies of the classic kind."""

from pathlib import Path

import pytest

from sampan.apiserver.authz import Attributes, AuthzDecision
from sampan.apiserver.classic.abac import AbacAuthorizer, AbacPolicyError, read_policies
from sampan.apiserver.request.call import UserInfo
from tests.apiserver.authz.rbac_objects import ANN, asked_path, attributes_of

NEW = '{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{%s}}'
ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))


def is_allowed(directory: Path, line: str, question: Attributes) -> bool:
    file = directory / "policy.jsonl"
    file.write_text(f"# who may do what\n\n{line}\n")
    return AbacAuthorizer(policies=read_policies(file)).authorize(question).decision is AuthzDecision.ALLOW


PODS = '"user":"ann","namespace":"ns","resource":"pods","apiGroup":""'


@pytest.mark.parametrize(
    ("line", "question", "expected"),
    [
        (NEW % PODS, attributes_of("get", "pods", namespace="ns"), True),
        (NEW % PODS, attributes_of("get", "pods", namespace="other"), False),
        (NEW % PODS, attributes_of("get", "pods", UserInfo("ben"), namespace="ns"), False),
        (NEW % PODS, attributes_of("get", "secrets", namespace="ns"), False),
        (NEW % (PODS + ',"readonly":true'), attributes_of("watch", "pods", namespace="ns"), True),
        (NEW % (PODS + ',"readonly":true'), attributes_of("create", "pods", namespace="ns"), False),
        (NEW % '"user":"ann","nonResourcePath":"/logs/*"', asked_path("get", "/logs/a"), True),
        (NEW % '"user":"ann","nonResourcePath":"/logs/*"', asked_path("get", "/metrics"), False),
        (NEW % '"user":"ann","nonResourcePath":"*"', attributes_of("get", "pods"), False),
        (NEW % '"group":"team","namespace":"*","resource":"*","apiGroup":"*"', attributes_of("get", "pods"), True),
        (
            NEW % '"user":"ben","group":"team","namespace":"*","resource":"*","apiGroup":"*"',
            attributes_of("get", "pods"),
            False,
        ),
        (
            NEW % '"user":"*","namespace":"*","resource":"*","apiGroup":"*"',
            attributes_of("get", "pods", ANONYMOUS),
            False,
        ),
        (NEW % '"namespace":"*","resource":"*","apiGroup":"*"', attributes_of("get", "pods"), False),
        ('{"user":"ann"}', attributes_of("delete", "nodes", group="any"), True),
        ('{"user":"ann"}', asked_path("get", "/metrics"), True),
        ('{"user":"ann","resource":"pods"}', attributes_of("get", "pods", namespace="ns"), True),
        ('{"user":"ann","resource":"pods"}', asked_path("get", "/metrics"), False),
        ("{}", attributes_of("get", "pods", ANN), True),
        ("{}", attributes_of("get", "pods", ANONYMOUS), False),
    ],
)
def test_a_policy_allows(tmp_path: Path, line: str, question: Attributes, expected: bool) -> None:
    assert is_allowed(tmp_path, line, question) is expected


@pytest.mark.parametrize("line", ["nonsense", '{"apiVersion":"v1","kind":"Policy"}', '{"user":1}'])
def test_a_line_that_is_no_policy_is_reported(tmp_path: Path, line: str) -> None:
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
