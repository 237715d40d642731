from typing import Any

import pytest

from tests.apiserver.cluster import PODS, Cluster, run_in_cluster
from tests.apiserver.pods import CONTAINER


def spec_with_request(cpu: str) -> dict[str, Any]:
    return {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": cpu}}}]}


async def resize(cluster: Cluster, cpu: str) -> Any:
    return await cluster.patch(f"{PODS}/a/resize", {"spec": spec_with_request(cpu)})


async def create_node(cluster: Cluster, os: str = "linux") -> None:
    meta = {"name": "n", "labels": {"kubernetes.io/os": os}}
    status = {"allocatable": {"cpu": "2", "memory": "1Gi"}}
    await cluster.make("/api/v1/nodes", {"metadata": meta, "status": status})


@pytest.mark.parametrize(
    ("os", "cpu", "code", "message"),
    [
        ("linux", "2", 200, ""),
        ("linux", "3", 403, "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000"),
        ("windows", "2", 403, 'pod resize is only supported on linux nodes, node "n" is "windows"'),
    ],
)
def test_resize_must_fit_allocatable_of_a_linux_node(os: str, cpu: str, code: int, message: str) -> None:
    async def work(cluster: Cluster) -> None:
        await create_node(cluster, os)
        await cluster.create_pod(spec={**spec_with_request("1"), "nodeName": "n"})
        reply = await resize(cluster, cpu)
        assert reply.code == code
        assert message in reply.json.get("message", "")

    run_in_cluster(work)


def test_resize_on_missing_node_is_rejected_unless_requests_are_unchanged() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod(spec={**spec_with_request("1"), "nodeName": "gone"})
        reply = await resize(cluster, "2")
        assert (reply.code, reply.json["message"]) == (403, 'pods "a" is forbidden: node "gone" not found')
        assert (await resize(cluster, "1")).code == 200

    run_in_cluster(work)
