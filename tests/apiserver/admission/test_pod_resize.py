from typing import Any

import pytest

from tests.apiserver.cluster import PODS, Cluster, in_cluster
from tests.apiserver.pods import CONTAINER


def sized(cpu: str) -> dict[str, Any]:
    return {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": cpu}}}]}


async def resize(cluster: Cluster, cpu: str) -> Any:
    return await cluster.patch(f"{PODS}/a/resize", {"spec": sized(cpu)})


async def node(cluster: Cluster, system: str = "linux") -> None:
    meta = {"name": "n", "labels": {"kubernetes.io/os": system}}
    status = {"allocatable": {"cpu": "2", "memory": "1Gi"}}
    await cluster.make("/api/v1/nodes", {"metadata": meta, "status": status})


@pytest.mark.parametrize(
    ("system", "cpu", "code", "text"),
    [
        ("linux", "2", 200, ""),
        ("linux", "3", 403, "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000"),
        ("windows", "2", 403, 'pod resize is only supported on linux nodes, node "n" is "windows"'),
    ],
)
def test_the_node_must_be_able(system: str, cpu: str, code: int, text: str) -> None:
    async def work(cluster: Cluster) -> None:
        await node(cluster, system)
        await cluster.pod(spec={**sized("1"), "nodeName": "n"})
        reply = await resize(cluster, cpu)
        assert reply.code == code
        assert text in reply.json.get("message", "")

    in_cluster(work)


def test_a_missing_node_cannot() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.pod(spec={**sized("1"), "nodeName": "gone"})
        reply = await resize(cluster, "2")
        assert (reply.code, reply.json["message"]) == (403, 'pods "a" is forbidden: node "gone" not found')
        assert (await resize(cluster, "1")).code == 200

    in_cluster(work)
