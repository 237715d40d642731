from typing import Any

import pytest

from sampan.apiserver.admission.default_toleration_seconds import TolerationDefaults
from sampan.apiserver.admission.plugins import default_plugins
from tests.apiserver.cluster import PODS, Cluster, in_cluster
from tests.apiserver.in_process_server import asking


def added(taint: str, seconds: int = 300) -> dict[str, Any]:
    key = f"node.kubernetes.io/{taint}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


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


async def test_the_seconds_can_be_set() -> None:
    tolerations = TolerationDefaults(not_ready_s=30, unreachable_s=0)
    async with asking(plugins=default_plugins(tolerations=tolerations, disabled=["ServiceAccount"])) as asks:
        cluster = Cluster(asks)
        await cluster.make("/api/v1/namespaces", {"metadata": {"name": "ns"}})
        pod = await cluster.pod()
        assert pod["spec"]["tolerations"] == [added("not-ready", 30), added("unreachable", 0)]
