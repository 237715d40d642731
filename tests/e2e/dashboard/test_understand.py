"""The views that explain a cluster, in a real browser: overview and trace of a pod, and what a user without permissions
and a cross-origin site can see."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.e2e.dashboard.browser import Page
from tests.e2e.dashboard.conftest import Dashboard, OpenPage
from tests.eventually import wait_until

SECRET = "hidden-treasure"


@pytest.fixture(scope="module")
def namespace(dashboard: Dashboard) -> Iterator[str]:
    """A namespace with a pod behind a service, and a pod whose name must not be shown to everybody."""
    name = f"understand-{uuid.uuid4().hex[:6]}"
    dashboard.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    dashboard.api("POST", f"/api/v1/namespaces/{name}/services", service)
    for pod, cpu in (("web", "1m"), (SECRET, "4000")):
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        body = {"metadata": {"name": pod, "labels": {"app": "web"}}, "spec": {"containers": [container]}}
        dashboard.api("POST", f"/api/v1/namespaces/{name}/pods", body)
    wait_until(lambda: dashboard.api("GET", f"/api/v1/namespaces/{name}/pods/web")["status"]["phase"] == "Running")
    yield name
    dashboard.api("DELETE", f"/api/v1/namespaces/{name}")


def test_overview_shows_store_runtime_and_network(open_page: OpenPage, namespace: str) -> None:
    page = open_page("c/sampan/overview")
    page.wait_for("document.querySelectorAll('.overview .facts').length >= 4")
    for text in ("Size on disk", "Container runtime", "hollow", "Service addresses", "linux/"):
        page.wait_for_text(text)
    page.wait_for("!document.body.innerText.includes('Still counting')")
    page.wait_for_text(SECRET)


def test_trace_tab_shows_the_startup_steps_of_a_pod(open_page: OpenPage, namespace: str) -> None:
    page = open_page(f"c/sampan/~v1~pods/{namespace}/web/trace")
    for text in ("store the pod", "wait in the queue", "bind to the node", "add to EndpointSlice"):
        page.wait_for_text(text)
    page.wait_for_text("Reachable by its services after")
    names = page.evaluate("[...document.querySelectorAll('.trace tbody th')].map(cell => cell.innerText)")
    assert [name for name in names if not name[0].isalpha()] == []
    assert "DefaultTolerationSeconds" not in page.text()
    page.click("label", "Each admission plugin")
    page.wait_for_text("DefaultTolerationSeconds")
    page.click("label", "Explain the steps")
    page.wait_for_text("adds the address of the ready pod to the EndpointSlices")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("c/sampan/overview", "Not allowed"),
        ("c/sampan/map?namespace=%s", "Not allowed"),
        ("c/sampan/timeline", "Not allowed"),
        ("c/sampan/audit", "Not allowed"),
        ("c/sampan/queues", "Not allowed"),
        ("c/sampan/~v1~pods", "Not allowed"),
        (f"c/sampan/~v1~pods/%s/{SECRET}", "Not allowed"),
        (f"c/sampan/~v1~pods/%s/{SECRET}/trace", "Not allowed"),
        (f"c/sampan/~v1~pods/%s/{SECRET}/schedule", "Not allowed"),
    ],
)
def test_user_without_permission_sees_not_allowed_and_no_object_names(
    stranger: Page, dashboard: Dashboard, namespace: str, path: str, text: str
) -> None:
    stranger.open(f"{dashboard.url}/ui/{path % namespace if '%s' in path else path}")
    stranger.wait_for_text(text)
    if SECRET not in path:
        assert SECRET not in stranger.text()
    if "%s" not in path:
        assert namespace not in stranger.text()


@pytest.fixture(scope="module")
def stranger(dashboard: Dashboard) -> Iterator[Page]:
    page = dashboard.open("c/sampan/overview", token=dashboard.token("stranger-to-all"))
    yield page
    page.close()


# -- another site ----------------------------------------------------------------------------------------------------


_ATTACKS = """<!doctype html><iframe src="TARGET/ui/c/sampan/overview"></iframe><script>
window.results = {};
const attempt = (name, path, options) => fetch(`TARGET/ui/api/${path}`, {credentials: "include", ...options})
  .then((answer) => answer.text()).then((text) => { results[name] = text; }, () => { results[name] = "failed"; });
attempt("read", "session", {});
attempt("write", "logout", {method: "POST", mode: "no-cors"});
const socket = new WebSocket("TARGET/ui/api/clusters/sampan/stream".replace("http", "ws"), ["v1.stream.sampan"]);
socket.onopen = () => { results.socket = "open"; };
socket.onerror = () => { results.socket = "failed"; };
</script>"""


@contextmanager
def other_site(target: str) -> Iterator[str]:
    """A site that shows the dashboard in a frame and sends requests to it with the cookies of the browser."""
    page = _ATTACKS.replace("TARGET", target).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


def test_cross_origin_site_cannot_frame_read_or_write(dashboard: Dashboard, admin_token: str) -> None:
    page = dashboard.open("c/sampan/overview", token=admin_token)
    assert page.evaluate("document.cookie") == ""
    with other_site(dashboard.url) as url:
        page.open(url)
        results = page.wait_for("window.results && Object.keys(results).length === 3 && results")
        assert (results["read"], results["socket"]) == ("failed", "failed")
        frame = "Refused to (frame|display)|X-Frame-Options|frame-ancestors"
        wait_until(lambda: any(re.search(frame, error) for error in page.errors()))
    page.open(f"{dashboard.url}/ui/c/sampan/overview")
    page.wait_for("document.querySelector('.topbar')")  # the session has not been logged out
    page.close()
