"""One cluster and one browser for all tests of the dashboard's page in a test process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sampan.machinery.client.transport import Request
from sampan.testing import Cluster
from tests.e2e.dashboard.browser import Browser, Page, find_chromium

STATIC = "src/sampan/dashboard/static"
AXE = "dashboard/web/node_modules/axe-core/axe.min.js"


class Dashboard:
    """A cluster with the dashboard, and a browser to look at it."""

    def __init__(self, *, cluster: Cluster, browser: Browser) -> None:
        self.cluster, self.browser = cluster, browser

    @property
    def url(self) -> str:
        return self.cluster.url

    def api(self, method: str, path: str, body: dict[str, Any] | None = None, *, patch: bool = False) -> dict[str, Any]:
        """Send a request to the API server as its administrator."""
        media_type = "application/merge-patch+json" if patch else "application/json"
        headers = {"Accept": "application/json", "Content-Type": media_type}
        content = json.dumps(body).encode() if body is not None else b""
        request = Request(method=method, path=path, headers=headers, body=content)

        async def send() -> bytes:
            return (await self.cluster.client.send(request)).body()

        result: dict[str, Any] = json.loads(self.cluster.run(send()))
        return result

    def token(self, account: str, cluster_role: str = "") -> str:
        """Create a service account in namespace default, bind a role to it, and return a token."""
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        self.api("POST", accounts, {"metadata": {"name": account}})
        if cluster_role:
            bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role}
            subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
            self.api("POST", bindings, {"metadata": {"name": account}, "roleRef": role, "subjects": [subject]})
        return self._request_token(account)

    def token_for_namespace(self, account: str, namespace: str, cluster_role: str) -> str:
        """Create a service account in namespace default, bind a role to it in one namespace, and return a token."""
        self.api("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": account}})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": cluster_role}
        subject = {"kind": "ServiceAccount", "name": account, "namespace": "default"}
        bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
        self.api("POST", bindings, {"metadata": {"name": account}, "roleRef": role, "subjects": [subject]})
        return self._request_token(account)

    def _request_token(self, account: str) -> str:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
        return str(self.api("POST", f"{accounts}/{account}/token", request)["status"]["token"])

    def open(self, path: str = "", *, token: str) -> Page:
        """Open a page of a browser context of its own, logged in."""
        page = self.browser.page()
        page.open(f"{self.url}/ui/login")
        page.wait_for("document.readyState === 'complete'")
        log_in = "fetch('/ui/api/login', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: %s})"
        body = json.dumps(json.dumps({"token": token}))
        page.wait_for(f"{log_in % body}.then((response) => response.ok)")
        page.open(f"{self.url}/ui/{path}")
        page.wait_for("document.querySelector('.topbar')")
        return page


@pytest.fixture(scope="session")
def dashboard(repository: Path) -> Iterator[Dashboard]:
    program = find_chromium()
    if program is None:
        pytest.skip("there is no Chromium here")
    if not (repository / STATIC / "index.html").exists():
        pytest.skip("the page of the dashboard is not built: make dashboard")
    with Cluster(nodes=3) as cluster, Browser(program) as browser:
        yield Dashboard(cluster=cluster, browser=browser)


@pytest.fixture(scope="session")
def admin_token(dashboard: Dashboard) -> str:
    return dashboard.token("dashboard-admin", "cluster-admin")


OpenPage = Callable[[str], Page]


@pytest.fixture
def open_page(dashboard: Dashboard, admin_token: str) -> Iterator[OpenPage]:
    """Opens pages of an administrator, which must not have shown an error in the console."""
    pages: list[Page] = []

    def open_as_administrator(path: str = "") -> Page:
        pages.append(dashboard.open(path, token=admin_token))
        return pages[-1]

    yield open_as_administrator
    errors = [error for page in pages for error in page.errors()]
    for page in pages:
        page.close()
    assert errors == []
