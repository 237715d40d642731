"""Manage objects through the page: restart, roll back, drain, delete several objects, create by forms, upload, undo."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.dashboard.browser import Page
from tests.e2e.dashboard.conftest import Dashboard, OpenPage
from tests.e2e.dashboard.steps import EDITOR, deployment, editor_text, pods_of, replace_editor_text
from tests.eventually import wait_until

DEPLOYMENTS = "c/sampan/apps~v1~deployments"


@pytest.fixture(scope="module")
def namespace(dashboard: Dashboard) -> Iterator[str]:
    name = f"manage-{uuid.uuid4().hex[:6]}"
    dashboard.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    dashboard.api("DELETE", f"/api/v1/namespaces/{name}")


def go_to(page: Page, path: str) -> None:
    """Follow a link inside the page, without a reload."""
    page.evaluate(f"history.pushState(null, '', '/ui/{path}'), dispatchEvent(new PopStateEvent('popstate'))")


def confirm(page: Page, action: str) -> None:
    """Press the button of a dialog after its dry run has been shown, and wait until the dialog is closed."""
    page.wait_for("document.querySelector('dialog .diff-line.add')")
    page.click("dialog footer button:not(:disabled)", action)
    page.wait_for("!document.querySelector('dialog')")


def test_restart_pause_and_roll_back(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    dashboard.api("POST", path, deployment("web", 1))
    page = open_page(f"{DEPLOYMENTS}/{namespace}/web")

    page.click(".actions button:not(:disabled)", "Restart")
    page.wait_for_text(f"kubectl rollout restart deployment/web -n {namespace}")
    confirm(page, "Restart")
    restarted = "kubectl.kubernetes.io/restartedAt"
    template: dict[str, Any] = dashboard.api("GET", f"{path}/web")["spec"]["template"]
    assert restarted in template["metadata"]["annotations"]
    wait_until(lambda: _revision(dashboard, f"{path}/web") == "2")

    page.click(".actions button:not(:disabled)", "Pause")
    confirm(page, "Pause")
    assert dashboard.api("GET", f"{path}/web")["spec"]["paused"] is True
    page.click(".actions button:not(:disabled)", "Resume")
    page.wait_for_text(f"kubectl rollout resume deployment/web -n {namespace}")
    page.wait_for("document.querySelector('dialog .diff-line.remove')")
    page.click("dialog footer button:not(:disabled)", "Resume")
    wait_until(lambda: "paused" not in dashboard.api("GET", f"{path}/web")["spec"])

    page.wait_for("!document.querySelector('dialog')")
    page.click(".actions button:not(:disabled)", "Roll back")
    page.wait_for_text(f"kubectl rollout undo deployment/web -n {namespace} --to-revision=1")
    page.wait_for(f"document.querySelector('dialog .diff')?.innerText.includes('{restarted}')")
    confirm_removal(page, "Roll back")
    template = dashboard.api("GET", f"{path}/web")["spec"]["template"]
    assert restarted not in template["metadata"].get("annotations", {})
    wait_until(lambda: _revision(dashboard, f"{path}/web") == "3")


def confirm_removal(page: Page, action: str) -> None:
    page.wait_for("document.querySelectorAll('dialog .diff').length === 2")
    page.click("dialog footer button:not(:disabled)", action)
    page.wait_for("!document.querySelector('dialog')")


def _revision(dashboard: Dashboard, path: str) -> str:
    annotations = dashboard.api("GET", path)["metadata"].get("annotations", {})
    return str(annotations.get("deployment.kubernetes.io/revision", ""))


def test_drain_with_progress(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    """A pod with an emptyDir needs a confirmation, and an eviction that a disruption budget delays is shown."""
    scratch = [{"name": "scratch", "emptyDir": {}}]
    fixed = {"nodeSelector": {"kubernetes.io/hostname": "node-2"}, "terminationGracePeriodSeconds": 0}
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    dashboard.api("POST", deployments, deployment("drained", 1, volumes=scratch, **fixed))
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "drained"}}}
    dashboard.api("POST", budgets, {"metadata": {"name": "drained"}, "spec": spec})
    wait_until(lambda: len(pods_of(dashboard, namespace, "drained")) == 1)
    pod = pods_of(dashboard, namespace, "drained")[0]
    wait_until(lambda: dashboard.api("GET", f"{budgets}/drained").get("status", {}).get("currentHealthy") == 1)

    page = open_page("c/sampan/~v1~nodes/-/node-2")
    page.click(".actions button:not(:disabled)", "Drain")
    page.wait_for_text("These pods block the drain")
    assert page.evaluate("document.querySelector('dialog footer .danger').disabled")
    page.click("dialog label", "emptyDir volumes")
    page.wait_for_text("kubectl drain node-2 --ignore-daemonsets --delete-emptydir-data")
    page.evaluate(
        "[...document.querySelectorAll('dialog input[type=checkbox]')].filter((box) => !box.checked)"
        ".forEach((box) => box.click())"
    )
    page.click("dialog footer button:not(:disabled)", "Drain")
    page.wait_for(
        "[...document.querySelectorAll('.drain-list li')].some((line) => "
        f"line.innerText.includes('{pod}') && line.innerText.includes('disruption budget'))"
    )
    assert dashboard.api("GET", "/api/v1/nodes/node-2")["spec"]["unschedulable"] is True
    dashboard.api("DELETE", f"{budgets}/drained")
    page.click("dialog footer button:not(:disabled)", "Close")
    wait_until(lambda: pod not in pods_of(dashboard, namespace, "drained"))
    page.wait_for("document.querySelector('.actions')?.innerText.includes('Uncordon')")
    page.click(".actions button:not(:disabled)", "Uncordon")
    page.wait_for("document.querySelector('dialog .diff-line.remove')")
    page.click("dialog footer button:not(:disabled)", "Uncordon")
    wait_until(lambda: "unschedulable" not in dashboard.api("GET", "/api/v1/nodes/node-2")["spec"])
    dashboard.api("DELETE", f"{deployments}/drained")


def wait_for_pods(dashboard: Dashboard, namespace: str, app: str, count: int) -> None:
    wait_until(lambda: len(pods_of(dashboard, namespace, app)) == count)


def test_scale_and_delete_several_deployments_with_their_dependents(
    open_page: OpenPage, dashboard: Dashboard, namespace: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    for name in ("pair-one", "pair-two"):
        dashboard.api("POST", path, deployment(name, 1))
        wait_for_pods(dashboard, namespace, name, 1)
    page = open_page(f"{DEPLOYMENTS}?namespace={namespace}&q=pair")
    page.wait_for("document.querySelectorAll('.table-body .name').length === 2")
    page.click("[role=columnheader] input[type=checkbox]")
    page.wait_for_text("2 selected")
    page.click(".selection button:not(:disabled)", "Scale")
    page.fill("dialog input[type=number]", "2")
    page.wait_for("document.querySelectorAll('dialog .diff').length === 2")
    page.click("dialog footer button:not(:disabled)", "Scale")
    page.wait_for("!document.querySelector('dialog')")
    for name in ("pair-one", "pair-two"):
        wait_for_pods(dashboard, namespace, name, 2)
    page.click(".selection button:not(:disabled)", "Delete")
    page.wait_for("document.querySelector('dialog')?.innerText.includes('2 ReplicaSet, 4 Pod')")
    page.wait_for_text(f"kubectl delete deployment/pair-one -n {namespace}")
    page.click("dialog footer button:not(:disabled)", "Delete")
    page.wait_for_text("Deployment pair-two deleted")
    wait_until(
        lambda: (
            not {"pair-one", "pair-two"} & {item["metadata"]["name"] for item in dashboard.api("GET", path)["items"]}
        )
    )


FORMS: dict[str, dict[str, str]] = {
    "Pod": {"input[placeholder=nginx]": "example/app:1"},
    "Service": {"[aria-label='Selector: Value 1']": "shop"},
    "ReplicationController": {"input[placeholder=nginx]": "example/app:1"},
    "Deployment": {"input[placeholder=nginx]": "example/app:1"},
    "StatefulSet": {"input[placeholder=nginx]": "example/app:1"},
    "Job": {"input[placeholder=nginx]": "example/app:1"},
    "CronJob": {"input[placeholder=nginx]": "example/app:1"},
    "ConfigMap": {"[aria-label='Data: Key 1']": "mode", "[aria-label='Data: Value 1']": "fast"},
    "Secret": {"[aria-label='Data: Key 1']": "user", "[aria-label='Data: Value 1']": "admin"},
    "Ingress": {"[aria-label='Rules 1'] input[required]": "shop"},
    "PersistentVolumeClaim": {},
}
"""The fields that the form of each kind needs in addition to the name."""


def test_forms_create_all_kinds(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    page = open_page(f"c/sampan/create/Pod?namespace={namespace}")
    for kind, fields in FORMS.items():
        go_to(page, f"c/sampan/create/{kind}?namespace={namespace}")
        page.wait_for(f"document.querySelector('h1')?.innerText === 'Create {kind}'")
        name = f"form-{kind.lower()}"
        page.fill("form .form-fields input[required]", name)
        for selector, text in fields.items():
            page.fill(selector, text)
        page.wait_for_text("The server accepts this.")
        page.click("form button[type=submit]:not(:disabled)")
        page.wait_for("document.querySelector('dialog .diff-line.add')")
        page.click("dialog footer button:not(:disabled)", "Create")
        page.wait_for(f"location.pathname.endsWith('/{namespace}/{name}') && document.querySelector('.detail h1')")
    secret = dashboard.api("GET", f"/api/v1/namespaces/{namespace}/secrets/form-secret")
    assert secret["data"] == {"user": "YWRtaW4="}


def test_validation_errors_are_shown_at_their_fields(open_page: OpenPage, namespace: str) -> None:
    page = open_page(f"c/sampan/create/Deployment?namespace={namespace}")
    page.fill("form .form-fields input[required]", "shop")
    page.fill("input[placeholder=nginx]", "example/app:1")
    field = "[...document.querySelectorAll('.field')].find((field) => field.innerText.startsWith('Memory {}'))"
    request, limit = field.format("request"), field.format("limit")
    page.evaluate(f"{request}.querySelector('input').id = 'request'; {limit}.querySelector('input').id = 'limit'")
    page.fill("#request", "2Gi")
    page.fill("#limit", "1Gi")
    page.wait_for(
        f"{request}.querySelector('.field-error')?.innerText.includes('must be less than or equal to memory')"
    )


def test_upload_apply_and_undo(open_page: OpenPage, dashboard: Dashboard, namespace: str, tmp_path: Path) -> None:
    page = open_page(f"c/sampan/create/yaml?namespace={namespace}")
    documents = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
            "data": {"k": "v"},
        }
        for name in ("first", "second")
    ]
    file = tmp_path / "objects.yaml"
    file.write_text("---\n".join(json.dumps(document) + "\n" for document in documents))
    page.upload("input[type=file]", file)
    page.click("button:not(:disabled)", "Review 2 objects")
    page.wait_for("document.querySelectorAll('dialog .review-item').length === 2")
    page.wait_for_text("kubectl apply --server-side -f manifests.yaml")
    page.click("dialog footer button:not(:disabled)", "Create")
    page.wait_for("document.querySelectorAll('.change-list li').length === 2")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert dashboard.api("GET", f"{path}/second")["data"] == {"k": "v"}
    page.click(".change-list li button", "Undo")
    page.wait_for("document.querySelector('.change-list li')?.innerText.includes('undone')")
    assert "second" not in {item["metadata"]["name"] for item in dashboard.api("GET", path)["items"]}

    # A change is taken back by writing the object as it was, unless somebody has changed it since.
    go_to(page, f"c/sampan/~v1~configmaps/{namespace}/first/edit")
    replace_editor_text(page, editor_text(page).replace("k: v", "k: changed"))
    page.click("button:not(:disabled)", "Review changes")
    page.click("dialog footer button:not(:disabled)", "Apply")
    page.wait_for_text("ConfigMap first changed")
    page.click(".notice:last-child button", "Undo")
    page.wait_for_text("ConfigMap first is as it was")
    assert dashboard.api("GET", f"{path}/first")["data"] == {"k": "v"}


def test_undo_does_not_overwrite_later_changes(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    dashboard.api("POST", path, {"metadata": {"name": "shared"}, "data": {"k": "v"}})
    page = open_page(f"c/sampan/~v1~configmaps/{namespace}/shared/edit")
    replace_editor_text(page, editor_text(page).replace("k: v", "k: mine"))
    page.click("button:not(:disabled)", "Review changes")
    page.click("dialog footer button:not(:disabled)", "Apply")
    page.wait_for_text("ConfigMap shared changed")
    dashboard.api("PATCH", f"{path}/shared", {"data": {"k": "theirs"}}, patch=True)
    page.click(".notice:last-child button", "Undo")
    page.wait_for_text("ConfigMap shared has changed again since")
    assert dashboard.api("GET", f"{path}/shared")["data"] == {"k": "theirs"}


def test_editor_completes_and_explains(open_page: OpenPage, namespace: str) -> None:
    page = open_page("c/sampan/create/yaml")
    replace_editor_text(page, "apiVersion: apps/v1\nkind: Deployment\nspec:\n  paused: true\n  repl")
    page.press("i")
    page.wait_for(f"{EDITOR}.innerText.includes('repli')")
    root = "document.querySelector('[data-editor]').shadowRoot"
    page.wait_for(f"{root}.querySelector('.cm-tooltip-autocomplete')?.innerText.includes('replicas')")
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 150))")  # a list that has just opened takes no keys
    page.press("Enter")
    page.wait_for(f"{EDITOR}.innerText.includes('replicas:')")
    box = page.evaluate(
        f"(([line]) => {{ const box = line.getBoundingClientRect(); return [box.x + 20, box.y + box.height / 2]; }})"
        f"([...{root}.querySelectorAll('.cm-line')].filter((line) => line.innerText.startsWith('kind')))"
    )
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    page.wait_for(f"{root}.querySelector('.cm-help')?.innerText.includes('REST resource')")


def test_new_custom_resources_appear_and_can_be_created(
    open_page: OpenPage, dashboard: Dashboard, namespace: str
) -> None:
    page = open_page("c/sampan/overview")
    page.wait_for("document.querySelector('.navigation section')")
    properties = {"spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    names = {"plural": "sails", "singular": "sail", "kind": "Sail"}
    definition = {
        "metadata": {"name": "sails.harbor.example.org"},
        "spec": {"group": "harbor.example.org", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    dashboard.api("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    page.click(".navigation a", "Sail")
    page.wait_for_text("No Sail here")
    page.click("a.button", "Create")
    page.wait_for(f"{EDITOR}?.innerText.includes('kind: Sail') && {EDITOR}.innerText.includes('spec:')")
    manifest = editor_text(page).replace('name: ""', "name: main").rstrip()
    replace_editor_text(page, f"{manifest}\n  size: 0\n".replace("namespace: default", f"namespace: {namespace}"))
    page.wait_for("document.querySelector('.problems')?.innerText.includes('greater than or equal to 1')")
    replace_editor_text(page, f"{manifest}\n  size: 3\n".replace("namespace: default", f"namespace: {namespace}"))
    page.click("button:not(:disabled)", "Review 1 object")
    page.click("dialog footer button:not(:disabled)", "Create")
    path = f"/apis/harbor.example.org/v1/namespaces/{namespace}/sails"
    wait_until(lambda: [item["spec"] for item in dashboard.api("GET", path).get("items", ())] == [{"size": 3}])
    dashboard.api("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/sails.harbor.example.org")
    page.wait_for("![...document.querySelectorAll('.navigation a')].some((link) => link.innerText === 'Sail')")


def test_hidden_editor_takes_no_space(open_page: OpenPage) -> None:
    """While the editor loads it is hidden behind a text area of the same height, so that the layout does not shift."""
    page = open_page("c/sampan/~v1~configmaps/default/kube-root-ca.crt/edit")
    page.wait_for(EDITOR)
    box = "document.querySelector('[data-editor]')"
    assert page.evaluate(f"{box}.offsetHeight") > 0
    assert page.evaluate(f"{box}.hidden = true, {box}.offsetHeight") == 0
