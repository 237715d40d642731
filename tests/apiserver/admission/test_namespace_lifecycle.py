import pytest

from tests.apiserver.cluster import NAMESPACE, Cluster, run_in_cluster


def test_create_in_missing_namespace_gets_404() -> None:
    async def work(cluster: Cluster) -> None:
        reply = await cluster.send("POST", "/api/v1/namespaces/none/configmaps", {"metadata": {"name": "B_"}})
        assert (reply.code, reply.json["message"]) == (404, 'namespaces "none" not found')

    run_in_cluster(work)


def test_terminating_namespace_rejects_creates_but_allows_updates_and_deletes() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(f"{NAMESPACE}/configmaps", {"metadata": {"name": "m"}})
        assert (await cluster.send("DELETE", NAMESPACE)).json["status"]["phase"] == "Terminating"
        reply = await cluster.send("POST", f"{NAMESPACE}/secrets", {"metadata": {"name": "s"}})
        assert reply.code == 403
        assert reply.json["message"] == (
            'secrets "s" is forbidden: unable to create new content in namespace ns because it is being terminated'
        )
        assert reply.json["details"]["causes"] == [
            {
                "reason": "NamespaceTerminating",
                "message": "namespace ns is being terminated",
                "field": "metadata.namespace",
            }
        ]
        assert (await cluster.patch(f"{NAMESPACE}/configmaps/m", {"data": {"a": "b"}})).code == 200
        assert (await cluster.send("DELETE", f"{NAMESPACE}/configmaps/m")).code == 200

    run_in_cluster(work)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_default_and_system_namespaces_cannot_be_deleted(name: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make("/api/v1/namespaces", {"metadata": {"name": name}})
        reply = await cluster.send("DELETE", f"/api/v1/namespaces/{name}")
        text = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
        assert (reply.code, reply.json["message"]) == (403, text)

    run_in_cluster(work)
