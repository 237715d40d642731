from typing import Any

import pytest

from tests.apiserver.cluster import PODS, Cluster, in_cluster


def added(taint: str) -> dict[str, Any]:
    key = f"node.kubernetes.io/{taint}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


OWN = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
OTHER = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], [added("not-ready"), added("unreachable")]),
        ([OWN], [OWN, added("unreachable")]),
        ([OTHER], [OTHER, added("not-ready"), added("unreachable")]),
        ([{"operator": "Exists"}], [{"operator": "Exists"}]),
    ],
)
def test_pods_stay_for_a_while_unless_they_say_otherwise(tolerations: list[Any], expected: list[Any]) -> None:
    async def work(cluster: Cluster) -> None:
        assert (await cluster.pod(spec={"tolerations": tolerations}))["spec"]["tolerations"] == expected

    in_cluster(work)


def test_an_update_that_drops_them_gets_them_back() -> None:
    async def work(cluster: Cluster) -> None:
        created = await cluster.pod()
        del created["spec"]["tolerations"]
        reply = await cluster.send("PUT", f"{PODS}/a", created)
        assert reply.json["spec"]["tolerations"] == [added("not-ready"), added("unreachable")]

    in_cluster(work)
