"""Objects that tests of the page create, and steps in its editor."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.dashboard.browser import Page
from tests.e2e.dashboard.conftest import Dashboard

EDITOR = "document.querySelector('[data-editor]')?.shadowRoot?.querySelector('.cm-content')"


def deployment(name: str, replicas: int, **template: Any) -> dict[str, Any]:
    """Return a Deployment; `template` has further fields of the pods' specification."""
    labels = {"app": name}
    spec = {"containers": [{"name": "web", "image": "example/web:1"}]} | template
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def pods_of(dashboard: Dashboard, namespace: str, app: str, phase: str = "Running") -> list[str]:
    """Return the names of the pods with this label in this phase."""
    pods = dashboard.api("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [
        str(pod["metadata"]["name"])
        for pod in pods
        if pod["metadata"].get("labels", {}).get("app") == app
        and pod["status"].get("phase") == phase
        and "deletionTimestamp" not in pod["metadata"]
    ]


def editor_text(page: Page) -> str:
    """Return the lines of the YAML editor that are in view."""
    page.wait_for(EDITOR)
    return str(page.evaluate(f"{EDITOR}.innerText"))


def replace_editor_text(page: Page, text: str) -> None:
    """Select everything in the YAML editor and paste another text."""
    page.wait_for(EDITOR)
    page.evaluate(f"{EDITOR}.focus()")
    page.press("Ctrl+a")
    page.evaluate(
        "((content, text) => { const clipboardData = new DataTransfer(); clipboardData.setData('text/plain', text);"
        "content.dispatchEvent(new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true})); })"
        f"({EDITOR}, {json.dumps(text)})"
    )
