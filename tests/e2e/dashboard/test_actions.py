"""Create, edit, scale and delete objects through the page of the dashboard, and complete the guided tour."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.dashboard.browser import Page
from tests.e2e.dashboard.conftest import AXE, Dashboard, OpenPage
from tests.e2e.dashboard.steps import EDITOR, deployment, editor_text, pods_of, replace_editor_text
from tests.eventually import wait_until


@pytest.fixture(scope="module")
def namespace(dashboard: Dashboard) -> Iterator[str]:
    name = f"actions-{uuid.uuid4().hex[:6]}"
    dashboard.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    dashboard.api("DELETE", f"/api/v1/namespaces/{name}")


def test_create_with_a_form(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    page = open_page(f"c/sampan/create/Deployment?namespace={namespace}")
    name = "form input[required]"
    page.fill(name, "Not_A_Name")
    page.wait_for("document.querySelector('.field.invalid .field-error')?.innerText.includes('RFC 1123')")
    page.fill(name, "shop")
    page.fill("input[placeholder=nginx]", "example/shop:1")
    page.wait_for_text("The server accepts this.")
    page.click("form button[type=submit]:not(:disabled)")
    page.wait_for("document.querySelector('dialog .diff-line.add')")
    assert "progressDeadlineSeconds: 600" in page.text(), "the review must show the defaults of the server"
    page.click("dialog button:not(:disabled)", "Create")
    page.wait_for(f"location.pathname === '/ui/c/sampan/apps~v1~deployments/{namespace}/shop'")
    created = dashboard.api("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/shop")
    assert created["spec"]["template"]["spec"]["containers"][0]["image"] == "example/shop:1"


def test_edit_with_a_diff_and_a_conflict(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/settings"
    dashboard.api(
        "POST", path.rpartition("/")[0], {"metadata": {"name": "settings"}, "data": {"a": "one", "z": "last"}}
    )
    page = open_page(f"c/sampan/~v1~configmaps/{namespace}/settings/edit")
    replace_editor_text(page, editor_text(page).replace("a: one", "a: mine"))
    page.click("button:not(:disabled)", "Review changes")
    page.wait_for("document.querySelector('dialog .diff-line.add')?.innerText.includes('a: mine')")
    dashboard.api("PATCH", path, {"data": {"z": "theirs"}}, patch=True)
    page.click("dialog button:not(:disabled)", "Apply")
    page.wait_for_text("Somebody else has changed the same object")
    page.click("dialog button", "Put mine on top")
    page.wait_for(f"{EDITOR}.innerText.includes('z: theirs')")
    page.click("button:not(:disabled)", "Review changes")
    page.click("dialog button:not(:disabled)", "Apply")
    wait_until(lambda: dashboard.api("GET", path)["data"] == {"a": "mine", "z": "theirs"})


def test_scale_delete_and_undo(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    dashboard.api("POST", path, deployment("web", 1))
    page = open_page(f"c/sampan/apps~v1~deployments/{namespace}/web")
    page.click("button:not(:disabled)", "Scale")
    page.fill("dialog input[type=number]", "3")
    page.wait_for_text(f"kubectl scale deployment/web -n {namespace} --replicas=3")
    page.wait_for("document.querySelector('dialog .diff-line.add')?.innerText.includes('replicas: 3')")
    page.click("dialog footer button", "Scale")
    wait_until(lambda: dashboard.api("GET", f"{path}/web").get("status", {}).get("readyReplicas") == 3)
    page.wait_for("!document.querySelector('dialog')")
    page.click("button:not(:disabled)", "Delete")
    page.wait_for("document.querySelector('dialog')?.innerText.includes('1 ReplicaSet, 3 Pod')")
    page.click("dialog footer button", "Delete")
    page.wait_for_text("Deployment web deleted")
    page.click(".notice:last-child button", "Undo")
    page.wait_for_text("Deployment web is as it was")
    assert dashboard.api("GET", f"{path}/web")["spec"]["replicas"] == 3


def test_guided_tour(open_page: OpenPage, dashboard: Dashboard) -> None:
    page = open_page("c/sampan/tour")
    page.click("button:not(:disabled)", "Start the tour")
    page.wait_for_text("All pods are ready.")
    page.click("button:not(:disabled)", "Continue")
    page.click("button:not(:disabled)", "Break node-")
    page.wait_for_text("Healed in")
    page.click("button:not(:disabled)", "Repair node-")
    page.click("button:not(:disabled)", "Clean up and finish")
    page.wait_for_text("Everything the tour made is gone.")
    nodes = dashboard.api("GET", "/api/v1/nodes")["items"]
    assert all(taint["key"] != "sampan.dev/tour" for node in nodes for taint in node["spec"].get("taints", ()))
    namespaces = dashboard.api("GET", "/api/v1/namespaces")["items"]
    assert [item for item in namespaces if "sampan.dev/tour" in item["metadata"].get("labels", {})] == []


def test_tools_are_accessible_in_both_themes(
    open_page: OpenPage, dashboard: Dashboard, namespace: str, repository: Path
) -> None:
    axe = repository / AXE
    if not axe.exists():
        pytest.skip("axe-core is not installed: make dashboard")
    dashboard.api("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("explained", 1))
    wait_until(lambda: len(pods_of(dashboard, namespace, "explained")) == 1)
    pod = f"c/sampan/~v1~pods/{namespace}/{pods_of(dashboard, namespace, 'explained')[0]}"
    views = {
        f"{pod}/trace": "document.querySelectorAll('.trace tbody tr').length >= 3",
        f"{pod}/schedule": "document.querySelectorAll('.schedule tbody tr').length === 3",
        f"{pod}/edit": EDITOR,
        f"{pod}/logs": "document.querySelector('.log-lines')",
        f"{pod}/terminal": "document.querySelector('.terminal-tab')",
        f"{pod}/charts": "document.querySelector('.chart')",
        f"{pod}/ports": "document.querySelector('.empty')",
        f"c/sampan/map?namespace={namespace}": "document.querySelector('.map-node')",
        "c/sampan/timeline": "document.querySelector('.timeline-records li')",
        "c/sampan/queues": "document.querySelector('.queue')",
        "c/sampan/audit?system=true": "document.querySelector('.audit-table')",
        "c/sampan/tour": "document.querySelector('.tour-card')",
        "c/sampan/create": "document.querySelector('.create')",
        "c/sampan/create/yaml": EDITOR,
    }
    dialogs = {
        f"c/sampan/apps~v1~deployments/{namespace}/explained": ("Scale", "Restart", "Delete"),
        "c/sampan/~v1~nodes/-/node-0": ("Drain",),
    }
    page = open_page(pod)
    page.evaluate(axe.read_text())
    problems_by_view: dict[str, list[str]] = {}
    for path, condition in views.items():
        go_to(page, path)
        page.wait_for(condition)
        problems_by_view |= {f"{path} {theme}": problems for theme, problems in violations(page, "main").items()}
    for path, actions in dialogs.items():
        go_to(page, path)
        for action in actions:
            page.click(".actions button:not(:disabled)", action)
            page.wait_for("document.querySelector('dialog[open] .kubectl') && !document.querySelector('.loading')")
            problems_by_view |= {
                f"{path} {action} {theme}": problems for theme, problems in violations(page, "dialog").items()
            }
            page.press("Escape")
            page.wait_for("!document.querySelector('dialog')")
    assert problems_by_view == {}


def go_to(page: Page, path: str) -> None:
    page.evaluate(f"history.pushState(null, '', '/ui/{path}'), dispatchEvent(new PopStateEvent('popstate'))")


def violations(page: Page, selector: str) -> dict[str, list[str]]:
    """Return the violations that axe finds below an element, by theme; in the dark theme only contrasts can differ."""
    problems_by_view: dict[str, list[str]] = {}
    for theme, rules in {"light": None, "dark": ["color-contrast"]}.items():
        page.prefer(color_scheme=theme, reduced_motion="reduce")
        options = {"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {})
        check = f"axe.run(document.querySelector({json.dumps(selector)}), {json.dumps(options)})"
        summary = "violations.map((item) => item.id + ': ' + item.nodes.slice(0, 3).map((node) => node.html).join(' '))"
        if problems := page.evaluate(f"{check}.then(({{violations}}) => {summary})"):
            problems_by_view[theme] = [str(problem) for problem in problems]
    return problems_by_view
