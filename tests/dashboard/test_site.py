"""The page, log-in, sessions and Kubernetes requests of the dashboard on an API server."""

from sampan.api.kubernetes_version import GIT_VERSION
from sampan.dashboard.static_files import BUILT_PAGE
from sampan.testing import Cluster
from tests.dashboard.page import admin_page, inline_kubeconfig, open_page, token_of


async def test_page_has_a_content_security_policy(cluster: Cluster) -> None:
    async with open_page(cluster) as page:
        status, _, response = await page.request("GET", "")
        assert status == (200 if (BUILT_PAGE / "index.html").exists() else 503)
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]


async def test_ui_path_without_a_trailing_slash_redirects_to_the_page(cluster: Cluster) -> None:
    async with open_page(cluster) as page, page.http.get(f"{page.url}/ui", ssl=page.tls, allow_redirects=False) as got:
        assert (got.status, got.headers["Location"]) == (308, "/ui/")


async def test_log_in_with_a_kubeconfig_and_log_out(cluster: Cluster) -> None:
    async with open_page(cluster) as page:
        status, session = await page.log_in(kubeconfig=inline_kubeconfig(cluster))
        assert status == 200, session
        assert session["user"]["username"] == "kubernetes-admin"
        assert "system:masters" in session["user"]["groups"]
        assert session["clusters"][0]["name"] == "sampan"
        assert session["clusters"][0]["version"] == GIT_VERSION
        assert session["features"]["flightRecorder"]
        status, same, _ = await page.request("GET", "api/session")
        assert (status, same["csrf"]) == (200, session["csrf"])
        assert (await page.request("POST", "api/logout"))[0] == 200
        assert (await page.request("GET", "api/session"))[0] == 401


async def test_log_in_with_a_token_has_the_permissions_of_the_token(cluster: Cluster) -> None:
    async with admin_page(cluster) as admin, open_page(cluster) as page:
        status, session = await page.log_in(token=await token_of(admin, "viewer"))
        assert status == 200, session
        assert session["user"]["username"] == "system:serviceaccount:default:viewer"
        assert (await page.k8s("GET", "/api/v1/secrets"))[0] == 403
        assert (await admin.k8s("GET", "/api/v1/secrets"))[0] == 200


async def test_kubernetes_requests_pass_with_their_bodies_and_statuses(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        path = "/api/v1/namespaces/default/configmaps"
        created = {"metadata": {"name": "passed"}, "data": {"a": "1"}}
        assert (await page.k8s("POST", path, json=created))[0] == 201
        assert (await page.k8s("POST", path, json=created))[0] == 409
        patch = {"data": {"a": "2"}}
        kind = {"Content-Type": "application/merge-patch+json"}
        status, body = await page.k8s("PATCH", f"{path}/passed?dryRun=All", json=patch, headers=kind)
        assert (status, body["data"]) == (200, {"a": "2"})
        status, body = await page.k8s("GET", f"{path}/passed")
        assert (status, body["data"]) == (200, {"a": "1"})
        status, body = await page.k8s("GET", f"{path}?limit=1")
        assert (status, body["kind"]) == (200, "ConfigMapList")
        assert (await page.k8s("DELETE", f"{path}/passed"))[0] == 200
        assert (await page.k8s("GET", f"{path}/passed"))[0] == 404


async def test_a_subscription_sends_a_snapshot_and_then_changes(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        path = "/api/v1/namespaces/default/configmaps"
        await stream.send(id=7, op="subscribe", path=path, table=True)
        snapshot = await stream.receive(type="snapshot", id=7)
        assert [column["name"] for column in snapshot["columns"]] == ["Name", "Data", "Age"]
        assert snapshot["more"] is False
        body = {"metadata": {"name": "streamed", "labels": {"a": "b"}}, "data": {"a": "1"}}
        await page.k8s("POST", path, json=body)
        row = await stream.change("default/streamed")
        assert row["cells"][:2] == ["streamed", 1]
        assert row["metadata"]["labels"] == {"a": "b"}
        assert row["uid"]
        await page.k8s("DELETE", f"{path}/streamed")
        assert await stream.change("default/streamed") is None


async def test_large_list_is_sent_in_pages(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        path = "/api/v1/namespaces/default/configmaps"
        for number in range(5):
            await page.k8s("POST", path, json={"metadata": {"name": f"many-{number}", "labels": {"many": ""}}})
        await stream.send(id=1, op="subscribe", path=path, table=False, limit=2, labelSelector="many")
        snapshot = await stream.receive(type="snapshot")
        assert [item["metadata"]["name"] for item in snapshot["objects"]] == ["many-0", "many-1"]
        assert (snapshot["more"], snapshot["remaining"]) == (True, None)
        names = []
        while (message := await stream.receive(type="changes"))["more"]:
            names += [row["metadata"]["name"] for _, row in message["changes"]]
        names += [row["metadata"]["name"] for _, row in message["changes"]]
        assert names == ["many-2", "many-3", "many-4"]


async def test_a_forbidden_subscription_gets_the_status(cluster: Cluster) -> None:
    async with admin_page(cluster) as admin, open_page(cluster) as page:
        await page.log_in(token=await token_of(admin, "nobody"))
        async with page.stream() as stream:
            await stream.send(id=3, op="subscribe", path="/api/v1/secrets", table=True)
            message = await stream.receive(id=3)
            assert (message["type"], message["status"]["code"]) == ("error", 403)


async def test_an_unsubscribed_list_sends_nothing_more(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        path = "/api/v1/namespaces/default/configmaps"
        for number in (1, 2):
            await stream.send(id=number, op="subscribe", path=path, table=True)
            await stream.receive(type="snapshot", id=number)
        await stream.send(id=1, op="unsubscribe")
        await page.k8s("POST", path, json={"metadata": {"name": "unsubscribed"}})
        message = await stream.receive()
        assert message["id"] == 2


async def test_a_watch_can_be_passed_through(cluster: Cluster) -> None:
    async with admin_page(cluster) as page:
        query = "watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Ddefault"
        status, event = await page.k8s("GET", f"/api/v1/namespaces?{query}")
        assert (status, event["type"], event["object"]["metadata"]["name"]) == (200, "ADDED", "default")
