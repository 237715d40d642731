from typing import Any

import pytest

from sampan.apiserver.admission.default_toleration_seconds import TolerationDefaults
from sampan.apiserver.admission.plugins import default_plugins
from tests.apiserver.cluster import PODS, Cluster, run_in_cluster
from tests.apiserver.in_process_server import in_process_client


def default_toleration(taint: str, seconds: int = 300) -> dict[str, Any]:
    key = f"node.kubernetes.io/{taint}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


NOT_READY_NO_EXECUTE = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
NOT_READY_NO_SCHEDULE = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], [default_toleration("not-ready"), default_toleration("unreachable")]),
        ([NOT_READY_NO_EXECUTE], [NOT_READY_NO_EXECUTE, default_toleration("unreachable")]),
        (
            [NOT_READY_NO_SCHEDULE],
            [NOT_READY_NO_SCHEDULE, default_toleration("not-ready"), default_toleration("unreachable")],
        ),
        ([{"operator": "Exists"}], [{"operator": "Exists"}]),
    ],
)
def test_not_ready_and_unreachable_tolerations_are_added_if_missing(
    tolerations: list[Any], expected: list[Any]
) -> None:
    async def work(cluster: Cluster) -> None:
        assert (await cluster.create_pod(spec={"tolerations": tolerations}))["spec"]["tolerations"] == expected

    run_in_cluster(work)


def test_default_tolerations_removed_by_update_are_restored() -> None:
    async def work(cluster: Cluster) -> None:
        created = await cluster.create_pod()
        del created["spec"]["tolerations"]
        reply = await cluster.send("PUT", f"{PODS}/a", created)
        assert reply.json["spec"]["tolerations"] == [default_toleration("not-ready"), default_toleration("unreachable")]

    run_in_cluster(work)


async def test_default_toleration_seconds_can_be_configured() -> None:
    tolerations = TolerationDefaults(not_ready_s=30, unreachable_s=0)
    async with in_process_client(
        plugins=default_plugins(tolerations=tolerations, disabled=["ServiceAccount"])
    ) as client:
        cluster = Cluster(client)
        await cluster.make("/api/v1/namespaces", {"metadata": {"name": "ns"}})
        pod = await cluster.create_pod()
        assert pod["spec"]["tolerations"] == [default_toleration("not-ready", 30), default_toleration("unreachable", 0)]
