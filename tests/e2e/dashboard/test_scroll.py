"""Only the content of the page scrolls, not the document around it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.dashboard.conftest import Dashboard, OpenPage
from tests.e2e.dashboard.steps import deployment, pods_of
from tests.eventually import wait_until

SIZES = ((1280, 800), (390, 844))
PAGES = {
    "pod": ("~v1~pods/{namespace}/{pod}", ".detail .card"),
    "deployment": ("apps~v1~deployments/{namespace}/web", ".detail .card"),
    "node": ("~v1~nodes/-/node-0", ".detail .card"),
    "create": ("create/Deployment", "form button[type=submit]"),
    "scheduling": ("~v1~pods/{namespace}/{pod}/schedule", ".detail table"),
    "timeline": ("timeline", ".timeline-slider"),
    "birth": ("~v1~pods/{namespace}/{pod}/trace", ".trace"),
    "overview": ("overview", ".node"),
}


@pytest.fixture(scope="module")
def names(dashboard: Dashboard) -> Iterator[dict[str, str]]:
    namespace = f"scroll-{uuid.uuid4().hex[:6]}"
    dashboard.api("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    dashboard.api("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web", 1))
    wait_until(lambda: pods_of(dashboard, namespace, "web"))
    yield {"namespace": namespace, "pod": pods_of(dashboard, namespace, "web")[0]}
    dashboard.api("DELETE", f"/api/v1/namespaces/{namespace}")


@pytest.mark.parametrize("name", PAGES)
def test_the_document_does_not_scroll(
    open_page: OpenPage, dashboard: Dashboard, names: dict[str, str], name: str
) -> None:
    path, element = PAGES[name]
    page = open_page(f"c/sampan/{path.format(**names)}")
    page.wait_for(f"document.querySelector('{element}')")
    heights = {}
    for width, height in SIZES:
        page.set_size(width, height)
        page.wait_for(f"innerWidth === {width}")
        heights[height] = page.evaluate("document.documentElement.scrollHeight")
    assert heights == {height: height for _, height in SIZES}
