"""Markup in object fields that the views show is rendered as text in a real browser."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from sampan.machinery.client.transport import Request
from tests.e2e.dashboard.browser import Page
from tests.e2e.dashboard.conftest import Dashboard, OpenPage
from tests.eventually import wait_until

MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
GROUP = "hostile.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def namespace(dashboard: Dashboard) -> Iterator[str]:
    name = f"hostile-{uuid.uuid4().hex[:6]}"
    dashboard.api("POST", "/api/v1/namespaces", {"metadata": {"name": name, "annotations": {"a": MARKUP}}})
    make_custom_kind(dashboard, name)
    make_network(dashboard, name)
    make_node(dashboard)
    write_as(dashboard, MARKUP, f"/api/v1/namespaces/{name}/configmaps", {"metadata": {"name": "by-somebody"}})
    yield name
    dashboard.api("DELETE", f"/api/v1/namespaces/{name}")
    dashboard.api("DELETE", f"{DEFINITIONS}/ships.{GROUP}")
    dashboard.api("DELETE", "/api/v1/nodes/hostile")


def make_custom_kind(dashboard: Dashboard, namespace: str) -> None:
    """Create a custom resource whose columns and values are markup."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    column = {"name": MARKUP, "type": "string", "jsonPath": ".spec.flag", "description": MARKUP}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "description": MARKUP, "properties": {"spec": schema}}},
        "additionalPrinterColumns": [column],
    }
    names = {"plural": "ships", "singular": "ship", "kind": "Ship"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    dashboard.api("POST", DEFINITIONS, {"metadata": {"name": f"ships.{GROUP}"}, "spec": spec})

    def is_established() -> bool:
        conditions = dashboard.api("GET", f"{DEFINITIONS}/ships.{GROUP}").get("status", {}).get("conditions") or []
        return any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions)

    wait_until(is_established)
    ship = {"apiVersion": f"{GROUP}/v1", "kind": "Ship", "metadata": {"name": "junk"}, "spec": {"flag": MARKUP}}
    dashboard.api("POST", f"/apis/{GROUP}/v1/namespaces/{namespace}/ships", ship)


def make_network(dashboard: Dashboard, namespace: str) -> None:
    """Create a pod with markup in its image, commands, annotations and status, a service and a network policy."""
    labels = {"app": "web"}
    container = {
        "name": "main",
        "image": MARKUP,
        "command": [MARKUP],
        "args": [MARKUP],
        "env": [{"name": "A", "value": MARKUP}],
        "workingDir": f"/{MARKUP}",
        "readinessProbe": {"exec": {"command": [MARKUP]}},
    }
    metadata = {"name": "web", "labels": labels, "annotations": {"a": MARKUP, "kubernetes.io/change-cause": MARKUP}}
    spec = {"containers": [container], "schedulerName": "nobody"}  # the status stays as it is written below
    dashboard.api("POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": metadata, "spec": spec})
    service = {"metadata": metadata, "spec": {"selector": labels, "ports": [{"port": 80}]}}
    dashboard.api("POST", f"/api/v1/namespaces/{namespace}/services", service)
    policy = {"metadata": metadata, "spec": {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"]}}
    dashboard.api("POST", f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies", policy)
    waiting = {"waiting": {"reason": MARKUP, "message": MARKUP}}
    statuses = [
        {"name": "main", "image": MARKUP, "imageID": MARKUP, "ready": False, "restartCount": 1, "state": waiting}
    ]
    conditions = [
        {"type": "Ready", "status": "False", "reason": "No", "message": MARKUP},
        {"type": "PodScheduled", "status": "False", "reason": MARKUP, "message": MARKUP},
    ]
    status = {"status": {"message": MARKUP, "reason": MARKUP, "conditions": conditions, "containerStatuses": statuses}}
    dashboard.api("PATCH", f"/api/v1/namespaces/{namespace}/pods/web/status", status, patch=True)


def make_node(dashboard: Dashboard) -> None:
    metadata = {"name": "hostile", "annotations": {"a": MARKUP}}
    dashboard.api("POST", "/api/v1/nodes", {"metadata": metadata, "spec": {"unschedulable": True}})
    conditions = [{"type": "Ready", "status": "False", "reason": MARKUP, "message": MARKUP}]
    names = ("osImage", "kernelVersion", "containerRuntimeVersion", "kubeletVersion", "operatingSystem", "architecture")
    info = {**dict.fromkeys(names, MARKUP), "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": ""}
    status = {"status": {"conditions": conditions, "nodeInfo": info}}
    dashboard.api("PATCH", "/api/v1/nodes/hostile/status", status, patch=True)


def write_as(dashboard: Dashboard, user: str, path: str, body: dict[str, Any]) -> None:
    """Write as a user whose name is markup, which the audit view shows."""
    headers = {"Content-Type": "application/json", "Impersonate-User": user, "Impersonate-Group": "system:masters"}
    request = Request(method="POST", path=path, headers=headers, body=json.dumps(body).encode())

    async def send() -> None:
        await dashboard.cluster.client.send(request)

    dashboard.cluster.run(send())


VIEWS = (
    ("c/sampan/overview", "onerror"),
    (f"c/sampan/{GROUP}~v1~ships?namespace=%s", "onerror"),
    (f"c/sampan/{GROUP}~v1~ships/%s/junk/yaml", "onerror"),
    ("c/sampan/~v1~pods?namespace=%s", "onerror"),
    ("c/sampan/~v1~pods/%s/web", "onerror"),
    ("c/sampan/~v1~pods/%s/web/yaml", "onerror"),
    ("c/sampan/~v1~pods/%s/web/trace", "store the pod"),
    ("c/sampan/~v1~pods/%s/web/logs", ""),
    ("c/sampan/~v1~pods/%s/web/edit", "onerror"),
    ("c/sampan/~v1~services/%s/web", "onerror"),
    ("c/sampan/~v1~namespaces/-/%s", "onerror"),
    ("c/sampan/~v1~nodes", "hostile"),
    ("c/sampan/~v1~nodes/-/hostile", "onerror"),
    ("c/sampan/map?namespace=%s", "web"),
    ("c/sampan/audit?namespace=%s", "onerror"),
    ("c/sampan/timeline", ""),
    ("c/sampan/queues", "-controller"),
)


def test_markup_in_object_fields_is_shown_as_text(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    page = open_page("c/sampan/overview")
    for path, text in VIEWS:
        page.open(f"{dashboard.url}/ui/{path % namespace if '%s' in path else path}")
        page.wait_for("document.querySelector('main h1, main .detail')")
        if text:
            try:
                page.wait_for_text(text, 30)
            except TimeoutError as error:
                raise AssertionError(f"{path} does not show {text!r}: {error}") from None
        check_harmless(page, path)


def check_harmless(page: Page, path: str) -> None:
    assert page.evaluate("window.hacked") is None, path
    elements = "document.querySelectorAll('main img, main script, main iframe, main object, [onerror]').length"
    assert page.evaluate(elements) == 0, path
    links = (
        "[...document.querySelectorAll('a')].map((link) => new URL(link.getAttribute('href') ?? '', location).protocol)"
    )
    assert set(page.evaluate(links)) <= {"https:"}, path
