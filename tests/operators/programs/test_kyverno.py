"""Kyverno with its admission and background controllers: policies that deny, change and generate, and one with CEL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.eventually import wait_until
from tests.operators.api import Api, Reply, has_condition
from tests.operators.program import running_operator
from tests.operators.programs.go_module import NEEDS_TIME_TO_BUILD, GoModule
from tests.ports import free_port

pytestmark = NEEDS_TIME_TO_BUILD

KYVERNO = GoModule("github.com/kyverno/kyverno", "v1.13.4")
NAMESPACE = "kyverno"
CONTROLLERS = {"admission-controller": "./cmd/kyverno", "background-controller": "./cmd/background-controller"}
USER = f"system:serviceaccount:{NAMESPACE}:kyverno"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
POLICIES = "/apis/kyverno.io/v1/clusterpolicies"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    programs = {name: KYVERNO.build_or_skip(package, f"kyverno-{name}") for name, package in CONTROLLERS.items()}
    definitions = KYVERNO.files_or_skip("config/crds/*/*.yaml")
    directory = tmp_path_factory.mktemp("kyverno")
    port = free_port()
    arguments = {
        "admission-controller": [
            f"--serverIP=127.0.0.1:{port}",
            f"--webhookServerPort={port}",
            "--caSecretName=kyverno-ca",
            "--tlsSecretName=kyverno-tls",
            f"--backgroundServiceAccountName={USER}",
            f"--reportsServiceAccountName={USER}",
        ],
        "background-controller": [],
    }
    with Cluster() as cluster, ExitStack() as stack:
        cluster.apply([*definitions, *account()])
        for name, program in programs.items():
            command = [str(program), f"--kubeconfig={cluster.kubeconfig}", "--disableMetrics", *arguments[name]]
            stack.enter_context(running_operator(command, environment(name), directory / f"{name}.log"))
        yield cluster


def account() -> list[dict[str, Any]]:
    """The namespace and the settings, and the rights that Kyverno needs to generate objects and to report on them."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "kyverno", "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kyverno", "namespace": NAMESPACE},
            "data": {"updateRequestThreshold": "1000"},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "kyverno"},
            "roleRef": role,
            "subjects": [subject],
        },
    ]


def environment(controller: str) -> dict[str, str]:
    """The variables that the deployment of a controller sets."""
    return {
        "KYVERNO_NAMESPACE": NAMESPACE,
        "KYVERNO_SERVICEACCOUNT_NAME": "kyverno",
        "KYVERNO_DEPLOYMENT": f"kyverno-{controller}",
        "KYVERNO_POD_NAME": f"kyverno-{controller}-0",
        "INIT_CONFIG": "kyverno",
        "METRICS_CONFIG": "kyverno-metrics",
    }


def policy(name: str, kind: str, **rule: Any) -> dict[str, Any]:
    """A policy for the objects of a kind with the label that has the name of the policy."""
    selector = {"matchLabels": {"policy": name}}
    match = {"any": [{"resources": {"kinds": [kind], "selector": selector}}]}
    rules = [{"name": "rule", "match": match, **rule}]
    return {
        "apiVersion": "kyverno.io/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": name},
        "spec": {"background": False, "rules": rules},
    }


def install(cluster: Cluster, value: dict[str, Any]) -> None:
    name = value["metadata"]["name"]
    Api(cluster).create_once_accepted(POLICIES, value)
    cluster.wait_for(f"clusterpolicy/{name}", lambda stored: has_condition(stored, "Ready"), timeout_s=WAIT_S)


def config_map(name: str, *, policy: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"policy": policy, **labels}}}


def deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    return {
        "metadata": {"name": "web", "labels": {"policy": "few-replicas"}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def wait_for_denial(cluster: Cluster, path: str, value: dict[str, Any]) -> Reply:
    """Return the refusal of an object once the webhooks know the policy."""
    replies: list[Reply] = []

    def is_denied() -> bool:
        replies[:] = [Api(cluster).send("POST", f"{path}?dryRun=All", value)]
        return replies[0].code != 201

    wait_until(is_denied)
    return replies[0]


def test_validation_denies_an_object(cluster: Cluster) -> None:
    pattern = {"metadata": {"labels": {"team": "?*"}}}
    validate = {"failureAction": "Enforce", "message": "an object needs a team", "pattern": pattern}
    install(cluster, policy("needs-team", "ConfigMap", validate=validate))
    denial = wait_for_denial(cluster, CONFIG_MAPS, config_map("denied", policy="needs-team"))
    assert denial.code == 400
    assert denial.message.startswith('admission webhook "validate.kyverno.svc-fail" denied the request: ')
    assert "resource ConfigMap/default/denied was blocked due to the following policies" in denial.message
    assert "an object needs a team" in denial.message
    Api(cluster).create(CONFIG_MAPS, config_map("allowed", policy="needs-team", team="a"))


def test_mutation_changes_an_object(cluster: Cluster) -> None:
    mutate = {"patchStrategicMerge": {"metadata": {"labels": {"+(tier)": "low"}}, "data": {"added": "yes"}}}
    install(cluster, policy("adds-tier", "ConfigMap", mutate=mutate))
    created: list[dict[str, Any]] = []

    def is_changed() -> bool:
        reply = Api(cluster).send("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("plain", policy="adds-tier"))
        created[:] = [reply.body]
        return bool(reply.body.get("data") == {"added": "yes"})

    wait_until(is_changed, describe=lambda: created)
    assert created[0]["metadata"]["labels"]["tier"] == "low"
    own = Api(cluster).create(CONFIG_MAPS, config_map("own", policy="adds-tier", tier="high"))
    assert own["metadata"]["labels"]["tier"] == "high"


def test_generated_object_follows_its_policy(cluster: Cluster) -> None:
    generate = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "defaults",
        "namespace": "{{request.object.metadata.name}}",
        "synchronize": True,
        "data": {"data": {"quota": "1"}},
    }
    install(cluster, policy("defaults", "Namespace", generate=generate))
    wait_until(lambda: sees_namespaces(cluster), timeout_s=WAIT_S)
    labels = {"policy": "defaults"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}})
    wait_for_quota(cluster, "1")
    cluster.delete("configmap/defaults", namespace="team-a")
    wait_for_quota(cluster, "1")
    patch = [{"op": "replace", "path": "/spec/rules/0/generate/data/data/quota", "value": "2"}]
    reply = Api(cluster).send("PATCH", f"{POLICIES}/defaults", patch, "application/json-patch+json")
    assert reply.code == 200, reply.body
    wait_for_quota(cluster, "2")


def sees_namespaces(cluster: Cluster) -> bool:
    """Whether a webhook of Kyverno gets namespaces, which it registers after a policy has become ready."""
    webhooks = Api(cluster).get(WEBHOOKS)["items"]
    rules = [rule for item in webhooks for webhook in item.get("webhooks") or () for rule in webhook.get("rules") or ()]
    return any("namespaces" in rule["resources"] for rule in rules)


def wait_for_quota(cluster: Cluster, quota: str) -> None:
    def has_quota(value: dict[str, Any]) -> bool:
        return value["data"] == {"quota": quota} and "deletionTimestamp" not in value["metadata"]

    cluster.wait_for("configmap/defaults", "create", namespace="team-a", timeout_s=WAIT_S)
    cluster.wait_for("configmap/defaults", has_quota, namespace="team-a", timeout_s=WAIT_S)


def test_cel_policy_denies_a_deployment_that_no_other_policy_matches(cluster: Cluster) -> None:
    expression = {"expression": "object.spec.replicas <= 3", "message": "at most 3 replicas"}
    validate = {"failureAction": "Enforce", "cel": {"expressions": [expression]}}
    install(cluster, policy("few-replicas", "Deployment", validate=validate))
    denial = wait_for_denial(cluster, DEPLOYMENTS, deployment(4))
    assert denial.code == 400
    assert "few-replicas" in denial.message
    assert "at most 3 replicas" in denial.message
    Api(cluster).create(DEPLOYMENTS, deployment(3))
