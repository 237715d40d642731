"""An operator in Go with controller-runtime: two replicas, webhooks with a CA of their own, and least privileges."""

import base64
import http.client
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.eventually import wait_until
from tests.operators.api import Api, Object, establish, has_condition, write_service_account_kubeconfig
from tests.operators.go_program import SHOP_OPERATOR
from tests.operators.program import Operator, running_operator, write_webhook_certificates
from tests.ports import free_ports

GROUP = "shops.example.com"
FINALIZER = f"{GROUP}/cleanup"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/shop-operator"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
RULES: list[Object] = [
    {"apiGroups": [GROUP], "resources": ["shops"], "verbs": ["get", "list", "watch", "update"]},
    {"apiGroups": [GROUP], "resources": ["shops/status"], "verbs": ["patch"]},
    {"apiGroups": [GROUP], "resources": ["shops/finalizers"], "verbs": ["update"]},
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch", "create", "patch"]},
    {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch", "create", "update"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
]


def schema(count: str) -> Object:
    text = {"type": "string"}
    properties = {count: {"type": "integer", "minimum": 0}, "image": text, "configMapName": text}
    spec = {"type": "object", "required": [count], "properties": properties}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}


def version(name: str, count: str, *, storage: bool) -> Object:
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": schema(count),
        "subresources": {"status": {}},
        "selectableFields": [{"jsonPath": ".spec.image"}, {"jsonPath": f".spec.{count}"}],
    }


def definition(client_config: Object) -> Object:
    webhook = {"clientConfig": client_config, "conversionReviewVersions": ["v1"]}
    return {
        "metadata": {"name": f"shops.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "shops", "singular": "shop", "kind": "Shop"},
            "versions": [version("v1", "replicas", storage=True), version("v1alpha1", "size", storage=False)],
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }


def webhook_configuration(name: str, client_config: Object, operations: list[str]) -> Object:
    rule = {"apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["shops"], "operations": operations}
    webhook = {
        "name": f"{name}.{GROUP}",
        "clientConfig": client_config,
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


@dataclass(frozen=True, slots=True)
class Replicas:
    first: Operator
    second: Operator


@pytest.fixture(scope="module")
def program() -> Path:
    return SHOP_OPERATOR.build_or_skip()


@pytest.fixture(scope="module")
def cluster(program: Path) -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Api:
    return Api(cluster)


@pytest.fixture(scope="module", autouse=True)
def replicas(cluster: Cluster, api: Api, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Two replicas of the operator. The first replica is the leader; the second replica serves the webhooks."""
    directory = tmp_path_factory.mktemp("go")
    bundle = base64.b64encode(write_webhook_certificates(directory)).decode()
    webhook_ports, probe_ports = free_ports(2), free_ports(2)

    def client_config(path: str) -> Object:
        return {"url": f"https://127.0.0.1:{webhook_ports[1]}{path}", "caBundle": bundle}

    kubeconfig = directory / "kubeconfig"
    write_service_account_kubeconfig(api, cluster, "default", "shop-operator", RULES, kubeconfig)
    establish(api, definition(client_config("/convert")))
    with ExitStack() as stack:
        operators = []
        for identity, webhook_port, probe_port in zip(("first", "second"), webhook_ports, probe_ports, strict=True):
            command = [str(program), "--identity", identity, "--certificates", str(directory)]
            command += ["--webhook-port", str(webhook_port), "--probe", f"127.0.0.1:{probe_port}"]
            log = directory / f"{identity}.log"
            operators.append(stack.enter_context(running_operator(command, {"KUBECONFIG": str(kubeconfig)}, log)))
            wait_until(lambda port=probe_port: is_ready(port))  # type: ignore[misc]
            api.wait_for(LEASE, lambda lease: lease["spec"].get("holderIdentity"))
        mutating = webhook_configuration(
            "defaults", client_config("/mutate-shops-example-com-v1-shop"), ["CREATE", "UPDATE"]
        )
        validating = webhook_configuration("checks", client_config("/validate-shops-example-com-v1-shop"), ["*"])
        api.create(f"{HOOKS}/mutatingwebhookconfigurations", mutating)
        api.create(f"{HOOKS}/validatingwebhookconfigurations", validating)
        yield Replicas(*operators)


def is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except ConnectionError:
        return False
    finally:
        connection.close()


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def shops(namespace: str) -> str:
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/shops"


def shop(name: str = "corner", api_version: str = "v1", annotations: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": f"{GROUP}/{api_version}", "kind": "Shop", "metadata": metadata, "spec": spec}


def is_ready_shop(value: Object) -> bool:
    return has_condition(value, "Ready") and value["status"]["observedGeneration"] == value["metadata"]["generation"]


def test_a_shop_becomes_ready(api: Api, shops: str, namespace: str) -> None:
    created = api.create(shops, shop(replicas=2))
    ready = api.wait_for(f"{shops}/corner", is_ready_shop)
    assert ready["status"]["readyReplicas"] == 2
    assert ready["metadata"]["finalizers"] == [FINALIZER]
    for path in (
        f"/apis/apps/v1/namespaces/{namespace}/deployments/corner",
        f"/api/v1/namespaces/{namespace}/services/corner",
    ):
        (owner,) = api.get(path)["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Shop", created["metadata"]["uid"], True)


def test_operator_restores_replicas_and_keeps_fields_of_another_manager(api: Api, shops: str, namespace: str) -> None:
    deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/corner"
    api.create(shops, shop(replicas=1))
    api.wait_for(deployment)
    api.merge(deployment, {"metadata": {"annotations": {"mine": "yes"}}, "spec": {"replicas": 3}})
    restored = api.wait_for(deployment, lambda value: value["spec"]["replicas"] == 1)
    assert restored["metadata"]["annotations"]["mine"] == "yes"
    managers = {entry["manager"]: entry["operation"] for entry in restored["metadata"]["managedFields"]}
    assert managers["shop-operator"] == "Apply"
    api.merge(f"{shops}/corner", {"spec": {"replicas": 2}})
    api.wait_for(f"{shops}/corner", lambda value: is_ready_shop(value) and value["status"]["readyReplicas"] == 2)


def test_a_deleted_dependent_is_created_again(api: Api, shops: str, namespace: str) -> None:
    api.create(shops, shop(replicas=1))
    service = f"/api/v1/namespaces/{namespace}/services/corner"
    uid = api.wait_for(service)["metadata"]["uid"]
    api.delete(service)
    api.wait_for(service, lambda value: value["metadata"]["uid"] != uid)


def test_deletion_runs_the_finalizer_and_collects_the_dependents(api: Api, shops: str, namespace: str) -> None:
    api.create(shops, shop(replicas=1))
    api.wait_for(f"{shops}/corner", is_ready_shop)
    api.delete(f"{shops}/corner")
    api.wait_gone(f"{shops}/corner")
    api.get(f"/api/v1/namespaces/{namespace}/configmaps/corner-closed")
    for path in (
        f"/apis/apps/v1/namespaces/{namespace}/deployments/corner",
        f"/api/v1/namespaces/{namespace}/services/corner",
    ):
        api.wait_gone(path)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    api.wait_for(pods, lambda page: not page["items"])


def test_config_map_change_reconciles_the_shops_that_use_it(api: Api, shops: str, namespace: str) -> None:
    config_maps = f"/api/v1/namespaces/{namespace}/configmaps"
    labels = {"watched": "yes"}
    api.create(config_maps, {"metadata": {"name": "prices", "labels": labels}, "data": {"version": "1"}})
    api.create(shops, shop(replicas=0, configMapName="prices"))
    api.wait_for(f"{shops}/corner", lambda value: value.get("status", {}).get("configVersion") == "1")
    api.merge(f"{config_maps}/prices", {"data": {"version": "2"}})
    api.wait_for(f"{shops}/corner", lambda value: value["status"]["configVersion"] == "2")


def test_event_is_served_by_both_event_api_groups(api: Api, shops: str, namespace: str) -> None:
    created = api.create(shops, shop(replicas=0))
    events = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
    event = api.wait_for_item(events, lambda value: value["reason"] == "Opened")
    assert (event["note"], event["action"], event["related"]["kind"]) == ("opened corner", "Create", "Service")
    assert event["regarding"]["uid"] == created["metadata"]["uid"]
    old = api.get(f"/api/v1/namespaces/{namespace}/events/{event['metadata']['name']}")
    assert (old["message"], old["reportingComponent"]) == ("opened corner", "shop-operator")


def test_both_versions_are_served_and_converted(api: Api, shops: str) -> None:
    old_shops = shops.replace("/v1/", "/v1alpha1/")
    api.create(old_shops, shop("old", "v1alpha1", size=1))
    assert api.get(f"{shops}/old")["spec"] == {"replicas": 1, "image": "example.com/shop:1"}
    api.wait_for(f"{old_shops}/old", lambda value: value.get("status", {}).get("readyReplicas") == 1)
    api.merge(f"{shops}/old", {"spec": {"replicas": 2}})
    assert api.get(f"{old_shops}/old")["spec"]["size"] == 2
    api.create(shops, shop("new", replicas=3, image="other"))
    listed = {item["metadata"]["name"]: item["spec"] for item in api.items(old_shops)}
    assert listed["new"] == {"size": 3, "image": "other"}
    selected = api.items(f"{old_shops}?fieldSelector=spec.image%3Dother")
    assert [item["metadata"]["name"] for item in selected] == ["new"]


def test_the_validating_webhook_reports_a_field_error(api: Api, shops: str) -> None:
    reply = api.send("POST", shops, shop(replicas=11))
    assert (reply.code, reply.body["reason"]) == (422, "Invalid")
    assert reply.message == (
        f'admission webhook "checks.{GROUP}" denied the request: Shop.{GROUP} "corner" is invalid: '
        "spec.replicas: Invalid value: 11: at most 10 replicas"
    )
    (cause,) = reply.body["details"]["causes"]
    assert (cause["field"], cause["reason"]) == ("spec.replicas", "FieldValueInvalid")
    old = api.send("POST", shops.replace("/v1/", "/v1alpha1/"), shop("old", "v1alpha1", size=11))
    assert old.code == 422, "a webhook for v1 sees requests for v1alpha1 as well"


def test_the_validating_webhook_warns_and_forbids(api: Api, shops: str) -> None:
    reply = api.send("POST", shops, shop(replicas=0, configMapName="prices", annotations={"protected": "yes"}))
    assert (reply.code, list(reply.warnings)) == (201, ["a shop without replicas is closed"])
    change = api.send("PATCH", f"{shops}/corner", {"spec": {"configMapName": None}}, "application/merge-patch+json")
    assert (change.code, change.body["reason"]) == (403, "Forbidden")
    assert change.message.endswith("denied the request: the config map cannot be removed")
    assert api.send("DELETE", f"{shops}/corner").code == 403
    api.merge(f"{shops}/corner", {"metadata": {"annotations": {"protected": None}}})
    api.delete(f"{shops}/corner")


def test_built_in_kinds_are_read_in_protobuf(api: Api, shops: str, replicas: Replicas) -> None:
    api.create(shops, shop(replicas=1))
    api.wait_for(f"{shops}/corner", lambda value: "status" in value)
    log = replicas.second.text() + replicas.first.text()
    assert "format: deployments as application/vnd.kubernetes.protobuf" in log
    assert "format: shops as application/json" in log


def test_the_other_replica_takes_over_from_a_killed_leader(api: Api, shops: str, replicas: Replicas) -> None:
    api.create(shops, shop("before", replicas=1))
    api.wait_for(f"{shops}/before", lambda value: value.get("status", {}).get("operator") == "first")
    holder = api.get(LEASE)["spec"]["holderIdentity"]
    replicas.first.kill()
    lease = api.wait_for(LEASE, lambda value: value["spec"]["holderIdentity"] not in ("", holder))
    assert lease["spec"]["leaseTransitions"] == 1
    api.create(shops, shop("after", replicas=1))
    for name in ("before", "after"):
        api.wait_for(f"{shops}/{name}", lambda value: value.get("status", {}).get("operator") == "second")
    replicas.second.process.terminate()
    replicas.second.process.wait(60)
    assert api.get(LEASE)["spec"]["holderIdentity"] == "", "a replica that ends releases the lease"
    for kind in ("mutating", "validating"):
        api.delete(f"{HOOKS}/{kind}webhookconfigurations/{'defaults' if kind == 'mutating' else 'checks'}")
