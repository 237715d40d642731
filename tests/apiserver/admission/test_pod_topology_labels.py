from typing import Any

from tests.apiserver.cluster import PODS, Cluster, in_cluster

PLACE = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}


async def node(cluster: Cluster) -> None:
    await cluster.make("/api/v1/nodes", {"metadata": {"name": "n", "labels": {**PLACE, "other": "o"}}})


async def labels(cluster: Cluster, name: str) -> Any:
    return (await cluster.send("GET", f"{PODS}/{name}")).json["metadata"].get("labels")


def test_a_pod_that_is_bound_learns_its_place() -> None:
    async def work(cluster: Cluster) -> None:
        await node(cluster)
        await cluster.pod("a", labels={"own": "1", "topology.kubernetes.io/zone": "wrong"})
        target = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
        await cluster.make(f"{PODS}/a/binding", target)
        assert await labels(cluster, "a") == {"own": "1", **PLACE}

    in_cluster(work)


def test_a_pod_that_is_made_for_a_node_has_it_from_the_start() -> None:
    async def work(cluster: Cluster) -> None:
        await node(cluster)
        await cluster.pod("a", {"nodeName": "n"})
        await cluster.pod("b", {"nodeName": "missing"})
        assert (await labels(cluster, "a"), await labels(cluster, "b")) == (PLACE, None)

    in_cluster(work)
