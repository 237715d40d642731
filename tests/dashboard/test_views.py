"""Views that the server computes: overview, history and explanation of a pod, records, queues, YAML, diff."""

from collections.abc import Iterator

import pytest

from sampan.testing import Cluster
from tests.dashboard.page import Page, admin_page, open_page, token_of
from tests.eventually import eventually

POD = {
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}]},
}
BIG = {
    "metadata": {"name": "big"},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "4000"}}}]},
}
AS_YAML = {"metadata": {"name": "as-yaml"}, "data": {"a": "1"}}
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2) as running:
        yield running


async def view(page: Page, path: str) -> tuple[int, dict[str, object]]:
    status, body, _ = await page.request("GET", f"api/clusters/sampan/{path}")
    return status, body


async def create(page: Page, pod: dict[str, object]) -> None:
    status, body = await page.k8s("POST", PODS, json=pod)
    assert status in (201, 409), body


async def test_the_overview_has_nodes_pods_and_problems(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        await create(page, POD)
        await create(page, BIG)
        await stream.send(id=8, op="subscribe", kind="overview")
        message = await stream.receive(type="snapshot", id=8)
        while True:
            overview = message["overview"]
            reasons = [problem["reason"] for problem in overview["problems"]]
            if overview["isComplete"] and overview["pods"]["phases"].get("Running") and "Unschedulable" in reasons:
                break
            message = await stream.receive(type="changes", id=8)
        assert (overview["nodes"]["count"], overview["nodes"]["ready"]) == (2, 2)
        assert overview["nodes"]["requests"]["cpu"] >= 0.25
        problem = next(problem for problem in overview["problems"] if problem["reason"] == "Unschedulable")
        assert problem["object"]["name"] == "big"
        assert problem["kubectl"] == "sampan why pod/big -n default"
        assert any(check["name"] == "etcd" and check["healthy"] for check in overview["components"])
        status, once = await view(page, "overview")
        assert (status, once["nodes"]["count"]) == (200, 2)  # type: ignore[index]


async def test_overview_marks_forbidden_sections(cluster: Cluster) -> None:
    async with admin_page(cluster) as admin, open_page(cluster) as page:
        await page.log_in(token=await token_of(admin, "nobody"))
        status, overview = await view(page, "overview")
        assert status == 200
        unreadable = {entry["resource"]: entry for entry in overview["unreadable"]}  # type: ignore[attr-defined]
        assert unreadable["nodes"]["forbidden"] is True
        assert 'cannot list resource "pods"' in unreadable["pods"]["message"]
        assert overview["problems"] == []


async def test_trace_and_why_views_of_a_pod(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        await create(page, POD)

        async def is_running() -> bool:
            return bool((await page.k8s("GET", f"{PODS}/web"))[1]["status"]["phase"] == "Running")

        await eventually(is_running)
        status, trace = await view(page, "trace?namespace=default&name=web")
        assert status == 200
        assert "bind to the node" in [step["name"] for step in trace["steps"]]  # type: ignore[attr-defined]
        status, why = await view(page, "why?namespace=default&name=web")
        assert (status, why["state"]) == (200, "Running")
        assert why["scheduling"]["count"] == 2  # type: ignore[index]
        assert (await view(page, "why?namespace=default&name=none"))[0] == 404
        assert (await view(page, "why?namespace=default"))[0] == 400


async def test_recorder_audit_and_queue_views(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        await page.k8s("POST", "/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "audited"}})
        status, recorder = await view(page, "recorder?limit=3")
        assert (status, len(recorder["records"]), recorder["more"]) == (200, 3, True)  # type: ignore[arg-type]
        status, audit = await view(page, "audit?resource=configmaps&name=audited")
        entry = audit["entries"][0]  # type: ignore[index]
        assert (status, entry["action"], entry["namespace"], entry["outcome"]) == (200, "create", "default", "201")
        status, queues = await view(page, "queues")
        names = [controller["name"] for controller in queues["controllers"]]  # type: ignore[attr-defined]
        assert "deployment-controller" in names
        assert (await view(page, "recorder?limit=x"))[0] == 400


async def test_yaml_view_separates_managed_fields(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        await page.k8s("POST", "/api/v1/namespaces/default/configmaps", json=AS_YAML)
        status, body = await view(page, "yaml?path=/api/v1/namespaces/default/configmaps/as-yaml")
        assert status == 200
        assert "name: as-yaml" in str(body["yaml"])
        assert "managedFields" not in str(body["yaml"])
        assert "manager:" in str(body["managedFields"])
        assert (await view(page, "yaml?path=/api/v1/nodes/node-0/proxy/configz"))[0] == 403


async def test_a_diff_compares_the_live_object_with_a_dry_run(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        maps = "/api/v1/namespaces/default/configmaps"
        await page.k8s("POST", maps, json={"metadata": {"name": "compared"}, "data": {"a": "1"}})
        manifest = """
apiVersion: v1
kind: ConfigMap
metadata: {name: compared}
data: {a: "2"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: not-there}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: Wrong Name}
"""
        status, body, _ = await page.request("POST", "api/clusters/sampan/diff", json={"manifest": manifest})
        assert status == 200, body
        changed, created, wrong = body["objects"]
        assert (changed["key"], changed["status"]) == ("configmaps/default/compared", "changed")
        assert 'a: "1"' in changed["live"]
        assert 'a: "2"' in changed["merged"]
        assert (created["status"], created["live"]) == ("created", "")
        assert (wrong["status"], wrong["error"]["code"]) == ("error", 422)
        assert (await page.k8s("GET", f"{maps}/not-there"))[0] == 404
        status, body, _ = await page.request("POST", "api/clusters/sampan/diff", json={"manifest": "---\na: 1\n" * 60})
        assert status == 400


async def test_completion_follows_the_schema(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:

        async def complete(text: str) -> dict[str, object]:
            request = {"text": text.replace("|", ""), "offset": text.index("|")}
            status, body, _ = await page.request("POST", "api/clusters/sampan/complete", json=request)
            assert status == 200, body
            return dict(body)

        body = await complete("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    imag|")
        assert [option["label"] for option in body["completions"]] == ["image", "imagePullPolicy"]  # type: ignore[attr-defined]
        body = await complete("apiVersion: v1\nkind: Pod\nspec:\n  restartPolicy: |")
        assert body["hover"]["path"] == "spec.restartPolicy"  # type: ignore[index]
        body = await complete("apiVersion: apps/v1\nkind: Dep|")
        assert [option["label"] for option in body["completions"]] == ["Deployment"]  # type: ignore[attr-defined]
