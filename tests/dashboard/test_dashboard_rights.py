"""Users without permissions, or with permissions in one namespace, see and can do exactly what RBAC allows.

Two namespaces hold objects whose names, messages and counts must not reach a user who may not read them, by any view,
stream or request of the page.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
import pytest

from sampan.testing import Cluster
from tests.dashboard.page import Page, admin_page, open_page, token_of
from tests.eventually import eventually

MINE, OTHER, SECRET = "mine", "other", "hidden-treasure"
"""`SECRET` is part of every object in the namespace `OTHER`."""
ROLES = "/apis/rbac.authorization.k8s.io/v1"
VIEWS = (
    "overview",
    "overview?namespace=",
    f"overview?namespace={OTHER}",
    f"trace?namespace={OTHER}&name={SECRET}",
    f"why?namespace={OTHER}&name={SECRET}",
    "recorder",
    "recorder?since=1",
    f"recorder?subject=pods/{OTHER}",
    "audit",
    f"audit?namespace={OTHER}",
    "queues",
    "stats?node=node-0",
    f"yaml?path=/api/v1/namespaces/{OTHER}/configmaps/{SECRET}",
    f"yaml?path=/api/v1/namespaces/{OTHER}/secrets/{SECRET}",
)
LISTS = (
    "/api/v1/pods",
    "/api/v1/events",
    "/api/v1/secrets",
    "/api/v1/services",
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/apis/apps/v1/deployments",
    "/apis/discovery.k8s.io/v1/endpointslices",
    "/apis/networking.k8s.io/v1/networkpolicies",
    f"/api/v1/namespaces/{OTHER}/pods",
    f"/api/v1/namespaces/{OTHER}/events",
    f"/api/v1/namespaces/{OTHER}/configmaps",
)
"""The lists of the overview, the map and the navigation."""
OBJECT = {"metadata": {"name": SECRET}, "data": {"k": SECRET}}
POD = {
    "metadata": {"name": SECRET},
    "spec": {"containers": [{"name": "c", "image": SECRET, "resources": {"requests": {"cpu": "4000"}}}]},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        running.run(_create_objects(running))
        yield running


async def _create_objects(cluster: Cluster) -> None:
    """Create objects in both namespaces, and a role binding for an editor of the first one."""
    async with admin_page(cluster) as page:
        for namespace in (MINE, OTHER):
            assert (await page.k8s("POST", "/api/v1/namespaces", json={"metadata": {"name": namespace}}))[0] == 201
        for kind in ("configmaps", "secrets"):
            body = OBJECT if kind == "configmaps" else {"metadata": {"name": SECRET}, "stringData": {"k": SECRET}}
            assert (await page.k8s("POST", f"/api/v1/namespaces/{OTHER}/{kind}", json=body))[0] == 201

        async def has_account() -> bool:
            path = f"/api/v1/namespaces/{OTHER}/serviceaccounts/default"
            return bool((await page.k8s("GET", path))[0] == 200)

        await eventually(has_account)
        assert (await page.k8s("POST", f"/api/v1/namespaces/{OTHER}/pods", json=POD))[0] == 201
        mine = {"metadata": {"name": "own"}, "data": {}}
        assert (await page.k8s("POST", f"/api/v1/namespaces/{MINE}/configmaps", json=mine))[0] == 201
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
        subject = {"kind": "ServiceAccount", "name": "editor", "namespace": "default"}
        binding = {"metadata": {"name": "editor"}, "roleRef": role, "subjects": [subject]}
        assert (await page.k8s("POST", f"{ROLES}/namespaces/{MINE}/rolebindings", json=binding))[0] == 201

        async def is_reported() -> bool:
            return SECRET in json.dumps((await page.request("GET", "api/clusters/sampan/overview"))[1])

        await eventually(is_reported)


@dataclass
class DashboardUser:
    page: Page

    async def view(self, path: str) -> tuple[int, str]:
        status, body, _ = await self.page.request("GET", f"api/clusters/sampan/{path}")
        return status, json.dumps(body)


@asynccontextmanager
async def log_in_as(cluster: Cluster, account: str) -> AsyncIterator[DashboardUser]:
    async with admin_page(cluster) as admin:
        token = await token_of(admin, account)
    async with open_page(cluster) as page:
        assert (await page.log_in(token=token))[0] == 200
        yield DashboardUser(page)


@pytest.fixture(params=["nobody", "editor"])
def account(request: pytest.FixtureRequest) -> str:
    """The service account of a user without permissions, and of an editor of one namespace."""
    return str(request.param)


async def test_views_hide_objects_that_the_user_may_not_read(cluster: Cluster, account: str) -> None:
    async with log_in_as(cluster, account) as user:
        for path in VIEWS:
            status, text = await user.view(path)
            assert SECRET in path or SECRET not in text, path
            if not path.startswith("overview"):
                assert status == 403, f"{path}: {status} {text}"


async def test_views_show_the_hidden_objects_to_an_administrator(cluster: Cluster) -> None:
    """The text that the previous test looks for is present for users who may read the objects."""
    async with admin_page(cluster) as page:
        for path in VIEWS:
            status, body, _ = await page.request("GET", f"api/clusters/sampan/{path}")
            assert status == 200, path
            if not path.startswith(("queues", "stats")):
                assert SECRET in json.dumps(body), path


async def test_the_overview_has_no_counts_of_other_namespaces(cluster: Cluster, account: str) -> None:
    async with log_in_as(cluster, account) as user:
        overview = json.loads((await user.view("overview"))[1])
        assert overview["pods"]["count"] == 0
        assert (overview["nodes"]["count"], overview["nodes"]["items"]) == (0, [])
        assert (overview["problems"], overview["problemCount"], overview["events"]) == ([], 0, [])
        unreadable = {entry["resource"]: entry["forbidden"] for entry in overview["unreadable"]}
        assert unreadable == dict.fromkeys(["nodes", "pods", "events", *overview["workloads"]], True)
        assert "store" not in overview
        assert "runtime" not in overview
        assert overview["network"] == {}


async def test_namespace_editor_has_the_overview_of_the_namespace(cluster: Cluster) -> None:
    async with log_in_as(cluster, "editor") as user:
        overview = json.loads((await user.view(f"overview?namespace={MINE}"))[1])
        assert [(entry["resource"], entry["forbidden"]) for entry in overview["unreadable"]] == [("nodes", True)]


async def test_streams_hide_objects_that_the_user_may_not_list(cluster: Cluster, account: str) -> None:
    async with log_in_as(cluster, account) as user, user.page.stream() as stream:
        for number, path in enumerate(LISTS):
            await stream.send(id=number, op="subscribe", path=path, table=True)
            message = await stream.receive(id=number)
            assert (message["type"], message["status"]["code"]) == ("error", 403), path
            assert SECRET not in json.dumps(message)
        for number, namespace in enumerate(("", OTHER), start=100):
            await stream.send(id=number, op="subscribe", kind="overview", namespace=namespace)
            message = await stream.receive(id=number)
            assert SECRET not in json.dumps(message)
            assert message["overview"]["pods"]["count"] == 0


async def test_requests_without_permission_get_403(cluster: Cluster, account: str) -> None:
    async with log_in_as(cluster, account) as user:
        maps = f"/api/v1/namespaces/{OTHER}/configmaps"
        for method, path, body in (
            ("GET", f"{maps}/{SECRET}", None),
            ("GET", f"/api/v1/namespaces/{OTHER}/pods/{SECRET}/log", None),
            ("GET", f"/api/v1/namespaces/{OTHER}/pods/{SECRET}/exec?command=sh", None),
            ("GET", "/debug/flightrecorder", None),
            ("GET", "/debug/controllers", None),
            ("GET", "/debug/store-status", None),
            ("GET", "/debug/scheduler/decisions", None),
            ("GET", "/metrics", None),
            ("POST", maps, {"metadata": {"name": "new"}}),
            ("POST", f"{maps}?dryRun=All", {"metadata": {"name": "new"}}),
            ("PUT", f"{maps}/{SECRET}", OBJECT),
            ("DELETE", f"{maps}/{SECRET}", None),
            ("POST", f"/api/v1/namespaces/{OTHER}/pods/{SECRET}/eviction", {}),
            ("PATCH", "/api/v1/nodes/node-0", {"spec": {"unschedulable": True}}),
        ):
            headers: dict[str, str | None] = {"Content-Type": "application/json"}
            if method == "PATCH":
                headers = {"Content-Type": "application/merge-patch+json"}
            data = msgspec.json.encode(body) if body is not None else None
            status, response = await user.page.k8s(method, path, data=data, headers=headers)
            assert status == 403, f"{method} {path}: {status} {response}"


async def test_a_diff_shows_neither_the_live_object_nor_the_dry_run(cluster: Cluster, account: str) -> None:
    manifest = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {SECRET}, namespace: {OTHER}}}\n"
    async with log_in_as(cluster, account) as user:
        request = {"manifest": manifest}
        status, body, _ = await user.page.request("POST", "api/clusters/sampan/diff", json=request)
        assert status == 200
        [entry] = body["objects"]
        assert (entry["status"], entry["error"]["code"]) == ("error", 403)
        assert not entry.get("live")
        assert not entry.get("merged")


async def test_features_that_need_permissions_are_absent(cluster: Cluster, account: str) -> None:
    async with log_in_as(cluster, account) as user:
        _, session, _ = await user.page.request("GET", "api/session")
        features = session["clusters"][0]["features"]
        assert not features.keys() & {"flightRecorder", "audit", "trace", "why", "queues"}


async def test_namespace_editor_can_read_and_write_in_the_namespace(cluster: Cluster) -> None:
    async with log_in_as(cluster, "editor") as user:
        maps = f"/api/v1/namespaces/{MINE}/configmaps"
        assert (await user.page.k8s("POST", maps, json={"metadata": {"name": "new"}}))[0] == 201
        status, body = await user.view(f"yaml?path={maps}/new")
        assert (status, "name: new" in body) == (200, True)
        async with user.page.stream() as stream:
            await stream.send(id=1, op="subscribe", path=maps, table=True)
            rows = (await stream.receive(type="snapshot"))["rows"]
            assert {row["key"] for row in rows} >= {f"{MINE}/new", f"{MINE}/own"}
        assert (await user.page.k8s("DELETE", f"{maps}/new"))[0] == 200
