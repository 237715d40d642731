"""The trace and audit views: steps of the start of a pod, dry runs, and lease renewals."""

from collections.abc import Iterator
from typing import Any

import pytest

from sampan.testing import Cluster
from tests.dashboard.page import Page, admin_page
from tests.eventually import eventually

PODS = "/api/v1/namespaces/default/pods"
POD = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
SERVICE = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


async def view(page: Page, path: str) -> dict[str, Any]:
    status, body, _ = await page.request("GET", f"api/clusters/sampan/{path}")
    assert status == 200, body
    return dict(body)


async def test_trace_view_has_every_step_of_a_pod_start(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        await page.k8s("POST", "/api/v1/namespaces/default/services", json=SERVICE)
        await page.k8s("POST", PODS, json=POD)

        async def trace() -> dict[str, Any]:
            return await view(page, "trace?namespace=default&name=web")

        async def is_published() -> bool:
            return "publishedAfterSeconds" in await trace()

        await eventually(is_published)
        value = await trace()
        steps = {step["name"]: step for step in value["steps"]}
        parts = [part["name"] for part in steps["store the pod"]["parts"]]
        order = ["authorize", "ServiceAccount", "ValidatingAdmissionWebhook", "ResourceQuota", "write to the store"]
        assert [name for name in dict.fromkeys(parts) if name in order] == order
        assert steps["wait in the queue"]["component"] == "kube-scheduler"
        assert "of service web" in steps["add to EndpointSlice"]["detail"]
        assert value["readyAfterSeconds"] <= value["publishedAfterSeconds"]


async def test_audit_view_marks_dry_runs_and_omits_lease_renewals(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        maps = "/api/v1/namespaces/default/configmaps"
        assert (await page.k8s("POST", f"{maps}?dryRun=All", json={"metadata": {"name": "dry"}}))[0] == 201
        assert (await page.k8s("POST", maps, json={"metadata": {"name": "wet"}}))[0] == 201
        entries = (await view(page, "audit?resource=configmaps&limit=5000"))["entries"]
        outcomes = {entry["name"]: entry["outcome"] for entry in entries}
        assert (outcomes["dry"], outcomes["wet"]) == ("201 dry run", "201")
        lease = {"metadata": {"name": "held"}, "spec": {"holderIdentity": "a"}}
        leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
        _, created = await page.k8s("POST", leases, json=lease)
        assert (await page.k8s("PUT", f"{leases}/held", json=created))[0] == 200
        entries = (await view(page, "audit?resource=leases.coordination.k8s.io&name=held"))["entries"]
        assert [entry["action"] for entry in entries] == ["create"]
