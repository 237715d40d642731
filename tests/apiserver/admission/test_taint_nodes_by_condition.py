from typing import Any

from tests.apiserver.cluster import Cluster, in_cluster

NODES = "/api/v1/nodes"
TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def test_new_nodes_take_no_pods_yet() -> None:
    async def taints(cluster: Cluster, name: str, *conditions: dict[str, Any]) -> Any:
        return (await cluster.make(NODES, {"metadata": {"name": name}, "spec": {"taints": list(conditions)}}))["spec"][
            "taints"
        ]

    async def work(cluster: Cluster) -> None:
        other = {"key": "k", "effect": "NoExecute"}
        assert await taints(cluster, "a") == [TAINT]
        assert await taints(cluster, "b", other) == [other, TAINT]
        assert await taints(cluster, "c", TAINT) == [TAINT]
        cleared = await cluster.patch(f"{NODES}/a", {"spec": {"taints": None}})
        assert "taints" not in cleared.json["spec"]

    in_cluster(work)
