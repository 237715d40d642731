from typing import Any

from tests.apiserver.cluster import PODS, Cluster, run_in_cluster

TOPOLOGY_LABELS = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}


async def create_node(cluster: Cluster) -> None:
    await cluster.make("/api/v1/nodes", {"metadata": {"name": "n", "labels": {**TOPOLOGY_LABELS, "other": "o"}}})


async def labels_of_pod(cluster: Cluster, name: str) -> Any:
    return (await cluster.send("GET", f"{PODS}/{name}")).json["metadata"].get("labels")


def test_binding_copies_topology_labels_of_node_to_pod() -> None:
    async def work(cluster: Cluster) -> None:
        await create_node(cluster)
        await cluster.create_pod("a", labels={"own": "1", "topology.kubernetes.io/zone": "wrong"})
        target = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
        await cluster.make(f"{PODS}/a/binding", target)
        assert await labels_of_pod(cluster, "a") == {"own": "1", **TOPOLOGY_LABELS}

    run_in_cluster(work)


def test_pod_created_with_node_name_gets_topology_labels() -> None:
    async def work(cluster: Cluster) -> None:
        await create_node(cluster)
        await cluster.create_pod("a", {"nodeName": "n"})
        await cluster.create_pod("b", {"nodeName": "missing"})
        assert (await labels_of_pod(cluster, "a"), await labels_of_pod(cluster, "b")) == (TOPOLOGY_LABELS, None)

    run_in_cluster(work)
