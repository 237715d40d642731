from typing import Any

from tests.apiserver.cluster import Cluster, run_in_cluster

NODES = "/api/v1/nodes"
TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def test_not_ready_taint_is_added_only_to_new_nodes() -> None:
    async def taints_of_new_node(cluster: Cluster, name: str, *initial: dict[str, Any]) -> Any:
        return (await cluster.make(NODES, {"metadata": {"name": name}, "spec": {"taints": list(initial)}}))["spec"][
            "taints"
        ]

    async def work(cluster: Cluster) -> None:
        other = {"key": "k", "effect": "NoExecute"}
        assert await taints_of_new_node(cluster, "a") == [TAINT]
        assert await taints_of_new_node(cluster, "b", other) == [other, TAINT]
        assert await taints_of_new_node(cluster, "c", TAINT) == [TAINT]
        cleared = await cluster.patch(f"{NODES}/a", {"spec": {"taints": None}})
        assert "taints" not in cleared.json["spec"]

    run_in_cluster(work)
