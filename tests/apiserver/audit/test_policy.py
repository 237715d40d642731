"""Audit policies: matching of rules, and validation."""

from typing import Any

import pytest

from sampan.apiserver.audit.policy import RECEIVED, STARTED, AuditLevel, parse
from sampan.apiserver.authz.authorizer import Attributes
from sampan.apiserver.request.call import UserInfo
from sampan.machinery.config_file import ConfigFileError

MAY = UserInfo("may", groups=("g1", "g2"))


def policy(*rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **more}


def pods(**parts: Any) -> Attributes:
    return Attributes(**{"user": MAY, "verb": "get", "version": "v1", "resource": "pods", "namespace": "ns", **parts})


def group_resources(group: str, *resources: str, **more: Any) -> list[dict[str, Any]]:
    return [{"group": group, "resources": list(resources), **more}]


HEALTH = Attributes(MAY, "get", "/healthz/etcd", is_resource=False)


@pytest.mark.parametrize(
    ("rule", "attributes", "matches"),
    [
        ({}, pods(), True),
        ({}, HEALTH, True),
        ({"users": ["may"]}, pods(), True),
        ({"users": ["june"]}, pods(), False),
        ({"userGroups": ["g2"]}, pods(), True),
        ({"userGroups": ["g3"]}, pods(), False),
        ({"verbs": ["list", "get"]}, pods(), True),
        ({"verbs": ["list"]}, pods(), False),
        ({"namespaces": ["ns"]}, pods(), True),
        ({"namespaces": ["other"]}, pods(), False),
        ({"namespaces": [""]}, pods(namespace=""), True),
        ({"namespaces": ["ns"]}, HEALTH, False),
        ({"resources": group_resources("", "pods")}, pods(), True),
        ({"resources": group_resources("apps", "pods")}, pods(), False),
        ({"resources": group_resources("*", "pods")}, pods(), True),
        ({"resources": group_resources("")}, pods(), True),
        ({"resources": group_resources("", "pods")}, pods(subresource="log"), False),
        ({"resources": group_resources("", "pods/log")}, pods(subresource="log"), True),
        ({"resources": group_resources("", "pods/*")}, pods(subresource="log"), True),
        ({"resources": group_resources("", "pods/*")}, pods(), True),
        ({"resources": group_resources("", "*/log")}, pods(subresource="log"), True),
        ({"resources": group_resources("", "*/log")}, pods(subresource="exec"), False),
        ({"resources": group_resources("", "*")}, pods(subresource="log"), True),
        ({"resources": group_resources("", "pods", resourceNames=["a"])}, pods(name="a"), True),
        ({"resources": group_resources("", "pods", resourceNames=["a"])}, pods(name="b"), False),
        ({"nonResourceURLs": ["/healthz*"]}, HEALTH, True),
        ({"nonResourceURLs": ["/healthz"]}, HEALTH, False),
        ({"nonResourceURLs": ["*"]}, HEALTH, True),
        ({"nonResourceURLs": ["*"]}, pods(), False),
    ],
)
def test_a_rule_applies_to_matching_requests(rule: dict[str, Any], attributes: Attributes, matches: bool) -> None:
    audit_config = parse(policy({"level": "Request", **rule})).evaluate(attributes)
    assert audit_config.level is (AuditLevel.REQUEST if matches else AuditLevel.NONE)


def test_first_matching_rule_decides() -> None:
    parsed = parse(policy({"level": "None", "users": ["may"]}, {"level": "Metadata"}))
    assert parsed.evaluate(pods()).level is AuditLevel.NONE
    assert parsed.evaluate(pods(user=UserInfo("june"))).level is AuditLevel.METADATA


def test_omitted_stages_and_managed_fields_of_policy_and_rule() -> None:
    parsed = parse(
        policy(
            {"level": "Metadata", "verbs": ["get"], "omitStages": ["ResponseStarted"], "omitManagedFields": False},
            {"level": "Metadata"},
            omitStages=["RequestReceived"],
            omitManagedFields=True,
        )
    )
    first, second = parsed.evaluate(pods()), parsed.evaluate(pods(verb="list"))
    assert (first.omitted, first.omits_managed_fields) == (frozenset({RECEIVED, STARTED}), False)
    assert (second.omitted, second.omits_managed_fields) == (frozenset({RECEIVED}), True)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "Expected `object`"),
        ({"apiVersion": "v1", "kind": "Policy", "rules": [{"level": "None"}]}, "audit.k8s.io/v1"),
        (policy(), "rules: at least one"),
        (policy({}), "rules[0].level: want one of"),
        (policy({"level": "All"}), "rules[0].level: want one of"),
        (policy({"level": "None", "user": ["a"]}), "unknown field `user`"),
        (policy({"level": "None", "omitStages": ["Never"]}), "rules[0].omitStages: there is no stage 'Never'"),
        (policy({"level": "None"}, omitStages=["Never"]), "omitStages: there is no stage"),
        (policy({"level": "None", "nonResourceURLs": ["x"]}), "must begin with '/'"),
        (policy({"level": "None", "nonResourceURLs": ["/a*b"]}), "only at its end"),
        (policy({"level": "None", "nonResourceURLs": ["/a"], "namespaces": ["a"]}), "cannot apply to both"),
        (policy({"level": "None", "resources": [{"resourceNames": ["a"]}]}), "requires at least one resource"),
        (policy({"level": "None", "resources": group_resources("apps/v1", "x")}), "is not an API group"),
    ],
)
def test_an_invalid_policy_is_rejected(value: Any, message: str) -> None:
    with pytest.raises(ConfigFileError) as caught:
        parse(value)
    assert message in str(caught.value)
