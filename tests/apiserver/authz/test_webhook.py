"""The authorization webhook over HTTPS, and the authorization configuration file."""

import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from sampan.apiserver.authz import Attributes, AuthzDecision, AuthzResult, UnionAuthorizer
from sampan.apiserver.authz.authorization_configuration import read_authorization
from sampan.apiserver.authz.authorizer import AlwaysAllow
from sampan.apiserver.authz.modes import NamedMode
from sampan.apiserver.authz.webhook import WebhookAuthorizer, WebhookSettings, compile_condition, decision_of, spec_of
from sampan.apiserver.request.call import UserInfo
from sampan.apiserver.webhooks.remote_webhook import RetryPolicy
from sampan.host.clock import VirtualClock
from sampan.machinery import errors
from sampan.machinery.client.access import Access
from sampan.machinery.config_file import ConfigFileError
from tests.apiserver.authn.https_service import HttpsEndpoint, https_endpoint
from tests.apiserver.authz.rbac_objects import ANN, attributes_of, path_attributes

RETRY_POLICY = RetryPolicy(timeout_s=60, attempts=2, pause_s=0.001)


class Service:
    """A webhook that allows `get`, denies `delete`, and has no opinion on other verbs."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        review = await request.json()
        self.requests.append(review["spec"])
        verb = (review["spec"].get("resourceAttributes") or review["spec"]["nonResourceAttributes"])["verb"]
        status = {"allowed": verb == "get", "denied": verb == "delete", "reason": f"for {verb}"}
        return web.json_response({**review, "status": status})


def authorizer(endpoint: HttpsEndpoint, clock: VirtualClock, **options: Any) -> WebhookAuthorizer:
    return WebhookAuthorizer(
        settings=WebhookSettings(access=endpoint.access(), retry_policy=RETRY_POLICY, **options), clock=clock
    )


async def test_webhook_decisions_are_cached(tmp_path: Path) -> None:
    service, clock = Service(), VirtualClock()
    async with https_endpoint(tmp_path, service.respond) as endpoint:
        chain = UnionAuthorizer(authorizer(endpoint, clock))
        try:
            get, create = attributes_of("get", "pods", namespace="ns"), attributes_of("create", "pods", namespace="ns")
            assert await chain.authorize(get) == AuthzResult(AuthzDecision.ALLOW, "for get")
            assert await chain.authorize(create) == AuthzResult(AuthzDecision.NO_OPINION, "webhook: for create")
            assert (await chain.authorize(attributes_of("delete", "pods"))).decision is AuthzDecision.DENY
            assert await chain.is_allowed(get)
            assert not await chain.is_allowed(create)
            assert len(service.requests) == 3
            await clock.advance(31)
            await chain.is_allowed(get)
            await chain.is_allowed(create)
            assert len(service.requests) == 4, "a denial is cached for 30 seconds"
            await clock.advance(300)
            await chain.is_allowed(get)
            assert len(service.requests) == 5, "an allowed request is cached for five minutes"
        finally:
            await chain.close()


async def test_cached_decision_is_returned_synchronously(tmp_path: Path) -> None:
    async with https_endpoint(tmp_path, Service().respond) as endpoint:
        webhook = authorizer(endpoint, VirtualClock())
        try:
            await UnionAuthorizer(webhook).authorize(attributes_of("get", "pods"))
            assert webhook.authorize(attributes_of("get", "pods")) == AuthzResult(AuthzDecision.ALLOW, "for get")
        finally:
            await webhook.close()


@pytest.mark.parametrize("policy", [AuthzDecision.NO_OPINION, AuthzDecision.DENY])
async def test_failure_policy_applies_if_the_webhook_is_unreachable(tmp_path: Path, policy: AuthzDecision) -> None:
    async with https_endpoint(tmp_path, Service().respond) as endpoint:
        pass
    chain = UnionAuthorizer(authorizer(endpoint, VirtualClock(), on_failure=policy))
    try:
        decision = await chain.authorize(attributes_of("get", "pods"))
        assert decision.decision is policy
        assert decision.error
        with pytest.raises(errors.ApiError, match="Internal Server Error") as raised:
            await chain.require(attributes_of("get", "pods"))
        assert raised.value.code == 500
    finally:
        await chain.close()


FULL = Attributes(
    UserInfo("ann", "7", ("team",), {"colour": ("red",)}),
    "list",
    group="apps",
    version="v1",
    resource="deployments",
    subresource="scale",
    namespace="ns",
    name="d",
    field_selector="metadata.name=d,spec.x!=y",
    label_selector="a=b,c in (d,e),!f",
)


def test_a_review_has_the_attributes_of_the_request() -> None:
    assert spec_of(FULL, "v1") == {
        "resourceAttributes": {
            "namespace": "ns",
            "verb": "list",
            "group": "apps",
            "version": "v1",
            "resource": "deployments",
            "subresource": "scale",
            "name": "d",
            "fieldSelector": {
                "requirements": [
                    {"key": "metadata.name", "operator": "In", "values": ["d"]},
                    {"key": "spec.x", "operator": "NotIn", "values": ["y"]},
                ]
            },
            "labelSelector": {
                "requirements": [
                    {"key": "a", "operator": "In", "values": ["b"]},
                    {"key": "c", "operator": "In", "values": ["d", "e"]},
                    {"key": "f", "operator": "DoesNotExist"},
                ]
            },
        },
        "user": "ann",
        "groups": ["team"],
        "extra": {"colour": ["red"]},
        "uid": "7",
    }
    assert spec_of(path_attributes("get", "/metrics"), "v1beta1") == {
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        "user": "ann",
        "group": list(ANN.groups),
    }


def test_review_with_allowed_and_denied_denies() -> None:
    decision = decision_of({"allowed": True, "denied": True})
    assert decision.decision is AuthzDecision.DENY
    assert "both allow and deny" in decision.error


def test_rules_review_is_incomplete_with_a_webhook(tmp_path: Path) -> None:
    hook = WebhookAuthorizer(settings=WebhookSettings(access=Access(server="https://none")), clock=VirtualClock())
    rules_info = UnionAuthorizer(AlwaysAllow(), hook).rules_for(ANN, "ns")
    assert not rules_info.is_complete
    assert rules_info.errors == ["webhook authorizer does not support user rule resolution"]
    assert [rule.verbs for rule in rules_info.rules] == [["*"], ["*"]], "the rules of other authorizers are listed"


GROUPS = "'team' in request.groups"
IN_NS = "has(request.resourceAttributes) && request.resourceAttributes.namespace == 'ns'"
SELECTED = "request.resourceAttributes.fieldSelector.requirements[0].values == ['d']"
FAILS = "request.extra['none'][0] == 'x'"
FAILED = f"cel evaluation error: expression '{FAILS}' resulted in error: no such key: none"
NUMBERS = str(list(range(200)))
SLOW = f"{NUMBERS}.all(a, {NUMBERS}.all(b, a + b >= 0))"
"""A condition that is too costly to evaluate in the event loop."""
TEAM = UserInfo("ann", "", ("team",), {})


@pytest.mark.parametrize(
    ("conditions", "policy", "expected", "fault"),
    [
        ([GROUPS, IN_NS], AuthzDecision.DENY, AuthzDecision.ALLOW, ""),
        ([IN_NS, "request.user != 'ann'"], AuthzDecision.DENY, AuthzDecision.NO_OPINION, ""),
        ([FAILS, "request.user != 'ann'"], AuthzDecision.DENY, AuthzDecision.NO_OPINION, ""),
        ([FAILS, IN_NS], AuthzDecision.DENY, AuthzDecision.DENY, FAILED),
        ([FAILS], AuthzDecision.NO_OPINION, AuthzDecision.NO_OPINION, FAILED),
        ([SELECTED], AuthzDecision.DENY, AuthzDecision.ALLOW, ""),
        (["has(request.nonResourceAttributes)"], AuthzDecision.DENY, AuthzDecision.NO_OPINION, ""),
        ([GROUPS, SLOW], AuthzDecision.DENY, AuthzDecision.ALLOW, ""),
        ([SLOW, FAILS], AuthzDecision.DENY, AuthzDecision.DENY, FAILED),
        ([SLOW, f"!({SLOW})"], AuthzDecision.DENY, AuthzDecision.NO_OPINION, ""),
    ],
)
async def test_match_conditions_decide_whether_the_webhook_is_called(
    tmp_path: Path, conditions: list[str], policy: AuthzDecision, expected: AuthzDecision, fault: str
) -> None:
    service = Service()
    async with https_endpoint(tmp_path, service.respond) as endpoint:
        programs = [compile_condition(text) for text in conditions]
        hook = authorizer(endpoint, VirtualClock(), on_failure=policy, conditions=programs)
        try:
            attributes = Attributes(
                TEAM, "get", version="v1", resource="pods", namespace="ns", field_selector="metadata.name=d"
            )
            decision = await UnionAuthorizer(hook).authorize(attributes)
            assert decision.decision is expected
            assert bool(service.requests) is (expected is AuthzDecision.ALLOW)
            assert decision.error == fault
        finally:
            await hook.close()


# -- the configuration file ------------------------------------------------------------------------------------------

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"
HOOK = """authorizers:
- {type: Node, name: node}
- type: Webhook
  name: hook
  webhook:
    timeout: 3s
    subjectAccessReviewVersion: v1
    failurePolicy: Deny
    unauthorizedTTL: 7s
    cacheAuthorizedRequests: false
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: FILE}
"""

CONDITIONS = """    matchConditionSubjectAccessReviewVersion: v1
    matchConditions: [{expression: "%s"}]
"""


def write_config(directory: Path, text: str) -> Path:
    kubeconfig = directory / "kube.yaml"
    kubeconfig.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c}}], "
        "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]}"
    )
    file = directory / "authz.yaml"
    file.write_text(text.replace("FILE", str(kubeconfig)))
    return file


def test_an_authorization_configuration_file_is_read(tmp_path: Path) -> None:
    node, hook = read_authorization(write_config(tmp_path, HEAD + HOOK))
    assert node == NamedMode("Node", "node")
    assert isinstance(hook, WebhookSettings)
    assert (hook.name, hook.version, hook.allowed_s, hook.refused_s) == ("hook", "v1", 0, 7)
    assert (hook.retry_policy.timeout_s, hook.on_failure) == (3, AuthzDecision.DENY)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "want a AuthorizationConfiguration"),
        (HEAD, "authorizers: Required value: at least one authorization mode must be defined"),
        (HEAD.replace("v1", "v9") + HOOK, "v9"),
        (
            HEAD + "authorizers: [{type: Guess, name: g}]",
            'authorizers[0].type: Unsupported value: "Guess": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", '
            '"Node", "RBAC", "Webhook"',
        ),
        (HEAD + "authorizers: [{type: RBAC}]", "authorizers[0].name: Required value"),
        (
            HEAD + "authorizers: [{type: RBAC, name: a}, {type: RBAC, name: b}]",
            'authorizers[1].type: Duplicate value: "RBAC"',
        ),
        (HEAD + "authorizers: [{type: Webhook, name: a}]", "authorizers[0].webhook: Required value: required when"),
        (
            HEAD + HOOK.replace("timeout: 3s", "timeout: 31s"),
            'authorizers[1].timeout: Invalid value: "31s": must be > 0s and <= 30s',
        ),
        (HEAD + HOOK.replace("failurePolicy: Deny", "failurePolicy: Maybe"), "failurePolicy: Unsupported value"),
        (HEAD + HOOK.replace("KubeConfigFile,", "Guess,"), "connectionInfo.type"),
        (HEAD + HOOK.replace("FILE", "/none"), 'connectionInfo.kubeConfigFile: Invalid value: "/none": error loading'),
        (HEAD + HOOK + "    matchConditions: [{expression: 'true'}]", "required if match conditions are specified"),
        (
            HEAD + HOOK + CONDITIONS % "'true'",
            "matchConditions[0].expression: Invalid value: \"'true'\": must evaluate to bool but got string",
        ),
        (
            HEAD + HOOK + CONDITIONS % "request.who == 'ann'",
            "compilation failed: ERROR: <input>:1:8: undefined field 'who'",
        ),
        (HEAD + HOOK + CONDITIONS % "", "authorizers[1].matchConditions[0].expression: Required value"),
        (HEAD + HOOK + "    surprise: 1", "surprise"),
    ],
)
def test_invalid_authorization_configuration_files_are_rejected(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigFileError, match=re.escape(fault)):
        read_authorization(write_config(tmp_path, text))
