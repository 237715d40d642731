"""A kopf operator with a custom resource, admission webhooks, timers and finalizers, and with least privileges."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.operators.api import Api, Object, establish, write_service_account_kubeconfig
from tests.operators.program import Operator, running_operator, write_webhook_certificates

GROUP, VERSION, PLURAL = "sites.example.com", "v1", "websites"
PROGRAM = Path(__file__).with_name("website_operator.py")
FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
RULES: list[Object] = [
    {"apiGroups": [GROUP], "resources": [PLURAL, f"{PLURAL}/status"], "verbs": ["list", "watch", "patch", "get"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch", "create", "patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list", "watch"]},
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        "verbs": ["create", "patch"],
    },
]
SPEC: Object = {
    "type": "object",
    "required": ["title"],
    "properties": {
        "title": {"type": "string", "minLength": 1},
        "theme": {"type": "string"},
        "locked": {"type": "boolean"},
    },
}
STATUS: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: Object = {
    "metadata": {"name": f"{PLURAL}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": PLURAL, "singular": "website", "kind": "Website"},
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def sampan_cluster() -> Iterator[Cluster]:
    """A cluster for this module alone: objects with the finalizer of the operator outlive the operator."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def api(sampan_cluster: Cluster) -> Api:
    return Api(sampan_cluster)


@pytest.fixture(scope="module", autouse=True)
def operator(sampan_cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator, which is started before its CustomResourceDefinition exists and discovers the kind later."""
    directory = tmp_path_factory.mktemp("kopf")
    write_webhook_certificates(directory)
    kubeconfig = directory / "kubeconfig"
    write_service_account_kubeconfig(api, sampan_cluster, "default", "website-operator", RULES, kubeconfig)
    environment = {"KUBECONFIG": str(kubeconfig), "WEBHOOK_CERTIFICATES": str(directory)}
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--all-namespaces", str(PROGRAM)]
    with running_operator(command, environment, directory / "kopf.log") as process:
        establish(api, DEFINITION)
        for kind in ("mutating", "validating"):
            api.wait_for(f"{HOOKS}/{kind}webhookconfigurations/hooks.{GROUP}", has_rules)
        yield process


def has_rules(configuration: Object) -> bool:
    """Return whether the operator has discovered the kind and registered its webhooks for it."""
    webhooks = configuration.get("webhooks") or ()
    return bool(webhooks) and all(webhook.get("rules") for webhook in webhooks)


@pytest.fixture
def websites(sampan_namespace: str) -> str:
    return f"/apis/{GROUP}/{VERSION}/namespaces/{sampan_namespace}/{PLURAL}"


@pytest.fixture
def config_maps(sampan_namespace: str) -> str:
    return f"/api/v1/namespaces/{sampan_namespace}/configmaps"


def website(name: str = "shop", annotations: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": name, "annotations": annotations or {}}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Website", "metadata": metadata, "spec": {"title": "A", **spec}}


def is_created(value: Object) -> bool:
    return "create_page" in value.get("status", {})


def test_creation_makes_a_page_that_the_website_owns(api: Api, websites: str, config_maps: str) -> None:
    created = api.create(websites, website(title="Shop"))
    page = api.wait_for(f"{config_maps}/shop-page")
    assert page["data"] == {"html": "<h1>Shop</h1>"}
    (owner,) = page["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Website", created["metadata"]["uid"], True)
    handled = api.wait_for(f"{websites}/shop", is_created)
    assert handled["status"]["create_page"] == {"page": "shop-page", "attempts": 1}
    assert handled["metadata"]["finalizers"] == [FINALIZER]


def test_update_changes_the_page(api: Api, websites: str, config_maps: str) -> None:
    api.create(websites, website(title="Shop"))
    api.wait_for(f"{websites}/shop", is_created)
    api.merge(f"{websites}/shop", {"spec": {"title": "Store"}})
    api.wait_for(f"{config_maps}/shop-page", lambda page: page["data"]["html"] == "<h1>Store</h1>")
    api.wait_for(f"{websites}/shop", lambda value: value["status"].get("formerTitle") == "Shop")


def test_deletion_waits_for_the_operator_and_collects_the_page(api: Api, websites: str, config_maps: str) -> None:
    api.create(websites, website(title="Shop"))
    api.wait_for(f"{websites}/shop", is_created)
    api.delete(f"{websites}/shop")
    api.wait_gone(f"{websites}/shop")
    assert api.get(f"{config_maps}/shop-archive")["data"] == {"title": "Shop"}, "the finalizer kept the website"
    api.wait_gone(f"{config_maps}/shop-page")


def test_temporary_error_of_a_handler_is_retried(api: Api, websites: str) -> None:
    api.create(websites, website(title="later"))
    handled = api.wait_for(f"{websites}/shop", is_created)
    assert handled["status"]["create_page"]["attempts"] == 2


def test_events_of_the_operator_are_recorded(api: Api, websites: str, sampan_namespace: str) -> None:
    created = api.create(websites, website(title="Shop"))
    events = f"/api/v1/namespaces/{sampan_namespace}/events"
    event = api.wait_for_item(events, lambda value: value["reason"] == "PageCreated")
    assert (event["type"], event["message"]) == ("Normal", "created page shop-page")
    assert event["involvedObject"]["uid"] == created["metadata"]["uid"]
    api.create(websites, website("other", title="impossible"))
    failure = api.wait_for_item(events, lambda value: value["type"] == "Warning")
    assert (failure["reason"], failure["involvedObject"]["name"]) == ("Impossible", "other")


def test_a_timer_patches_the_status(api: Api, websites: str) -> None:
    api.create(websites, website(annotations={"check": "yes"}))
    api.wait_for(f"{websites}/shop", lambda value: value.get("status", {}).get("checks", 0) >= 3)
    api.merge(f"{websites}/shop", {"metadata": {"annotations": {"check": None}}})


def test_the_mutating_webhook_sets_a_default(api: Api, websites: str) -> None:
    assert api.create(websites, website())["spec"]["theme"] == "plain"
    assert api.create(websites, website("own", theme="dark"))["spec"]["theme"] == "dark"


def test_warnings_of_webhooks_reach_the_client(api: Api, websites: str) -> None:
    reply = api.send("POST", websites, website(theme="blink", title="a title that is too long to be read"))
    assert reply.code == 201
    assert list(reply.warnings) == [
        "theme blink is deprecated, use plain",
        "titles of more than 20 characters are cut",
    ]


def test_the_validating_webhook_refuses_with_its_message(api: Api, websites: str) -> None:
    reply = api.send("POST", websites, website(title="forbidden"))
    assert reply.code == 422
    assert reply.message == (
        f"admission webhook \"check-title.hooks.{GROUP}\" denied the request: title 'forbidden' is not allowed"
    )
    assert api.send("GET", f"{websites}/shop").code == 404


def test_the_validating_webhook_refuses_a_deletion(api: Api, websites: str) -> None:
    api.create(websites, website(locked=True))
    reply = api.send("DELETE", f"{websites}/shop")
    assert (reply.code, reply.message.rpartition(": ")[2]) == (409, "the website is locked")
    api.merge(f"{websites}/shop", {"spec": {"locked": False}})
    api.delete(f"{websites}/shop")
    api.wait_gone(f"{websites}/shop")


def test_dry_run_calls_webhooks_without_storing_the_object(api: Api, websites: str) -> None:
    reply = api.send("POST", f"{websites}?dryRun=All", website())
    assert (reply.code, reply.body["spec"]["theme"]) == (201, "plain")
    assert api.items(websites) == []


def test_events_of_built_in_kinds_are_watched(api: Api, config_maps: str) -> None:
    api.create(config_maps, {"metadata": {"name": "note", "labels": {"reported": "yes"}}})
    api.delete(f"{config_maps}/note")
    api.wait_for(f"{config_maps}/note-was-deleted")
