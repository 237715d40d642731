"""What the page tells people who may read little or nothing, in a real browser: never that all is well."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.dashboard.browser import Page
from tests.e2e.dashboard.conftest import Dashboard, OpenPage
from tests.e2e.dashboard.steps import deployment, pods_of
from tests.eventually import wait_until

ALL_WELL = "Everything that should run is running"


@pytest.fixture(scope="module")
def namespace(dashboard: Dashboard) -> Iterator[str]:
    """A namespace in which all is well."""
    name = f"team-{uuid.uuid4().hex[:6]}"
    dashboard.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    dashboard.api("POST", f"/apis/apps/v1/namespaces/{name}/deployments", deployment("web", 1))
    wait_until(lambda: pods_of(dashboard, name, "web"))
    yield name
    dashboard.api("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def viewer(dashboard: Dashboard, namespace: str) -> Iterator[Page]:
    """A page of a person who may view one namespace."""
    page = dashboard.open("", token=dashboard.token_for_namespace("team-viewer", namespace, "view"))
    yield page
    page.close()


def open_overview(page: Page, dashboard: Dashboard, namespace: str = "") -> str:
    """Open the overview, wait until it is complete, and return its text."""
    page.open(f"{dashboard.url}/ui/c/sampan/overview?namespace={namespace}")
    page.wait_for("document.querySelector('.overview .card p')")
    page.wait_for("!document.querySelector('.overview .loading')")
    page.wait_for("!document.body.innerText.includes('Still counting')")
    return page.text()


def test_person_without_permissions_reads_that_problems_are_unknown(dashboard: Dashboard) -> None:
    page = dashboard.open("", token=dashboard.token("lists-nothing"))
    text = open_overview(page, dashboard)
    assert ALL_WELL not in text
    assert "No problems" not in text
    assert "Whether there are problems is not known: pods cannot be read." in text
    assert "Not read, because you may not list them: Node, Pod, " in text
    page.close()


def test_viewer_of_one_namespace_reads_what_was_not_read(viewer: Page, dashboard: Dashboard, namespace: str) -> None:
    text = open_overview(viewer, dashboard, namespace)
    assert ALL_WELL not in text
    assert "No problems in what could be read." in text
    assert "Not read, because you may not list them: Node." in text
    assert "Not allowed: this part needs the right to list nodes." in text
    assert "Whole cluster" not in text
    text = open_overview(viewer, dashboard, "default")
    assert "Whether there are problems is not known: pods cannot be read." in text


def test_all_is_well_only_where_everything_was_read(open_page: OpenPage, dashboard: Dashboard, namespace: str) -> None:
    text = open_overview(open_page(""), dashboard, namespace)
    assert f"No problems in namespace {namespace}. {ALL_WELL}." in text


def test_sums_of_a_namespace_are_not_those_of_the_cluster(
    open_page: OpenPage, dashboard: Dashboard, namespace: str
) -> None:
    page = open_page("")
    open_overview(page, dashboard, namespace)
    page.wait_for("document.querySelectorAll('.node').length >= 2")
    whole = str(page.evaluate("document.querySelector('.node.whole').innerText"))
    assert f"of {namespace}" in whole
    assert f"requested by {namespace}" in whole or "used" in whole
    assert "Whole cluster" in whole
    open_overview(page, dashboard)
    whole = str(page.evaluate("document.querySelector('.node.whole').innerText"))
    assert f"of {namespace}" not in whole
    assert "requested by" not in whole


def test_unknown_cluster_in_the_address_is_reported(open_page: OpenPage) -> None:
    page = open_page("c/elsewhere/overview")
    page.wait_for_text("There is no cluster elsewhere here")
    page.click("a", "Go to the overview")
    page.wait_for("location.pathname === '/ui/c/sampan/overview'")
