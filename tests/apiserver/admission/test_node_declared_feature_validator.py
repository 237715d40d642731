"""Changes of pods that not every node can make."""

from typing import Any

import pytest

from sampan.apiserver.admission.node_declared_feature_validator import INIT_CONTAINERS, POD_LEVEL
from tests.apiserver.cluster import PODS, Cluster, in_cluster
from tests.apiserver.pods import CONTAINER


def sized(cpu: str, memory: str = "10Mi") -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}}


def spec(own: str = "2", first: str = "1", sidecar: str = "1", main: str = "1") -> dict[str, Any]:
    return {
        **sized(own, "30Mi"),
        "initContainers": [
            {"name": "first", "image": "i", **sized(first)},
            {"name": "side", "image": "i", "restartPolicy": "Always", **sized(sidecar)},
        ],
        "containers": [{**CONTAINER, **sized(main)}],
    }


@pytest.mark.parametrize(
    ("declared", "after", "missing"),
    [
        ([], spec(main="500m"), ""),
        ([], spec(sidecar="500m"), ""),
        ([], spec(own="3"), POD_LEVEL),
        ([POD_LEVEL], spec(own="3"), ""),
        ([], spec(first="500m"), INIT_CONTAINERS),
        ([INIT_CONTAINERS], spec(first="500m"), ""),
        ([], spec(own="3", first="500m"), f"{POD_LEVEL}, {INIT_CONTAINERS}"),
        ([POD_LEVEL], spec(own="3", first="500m"), INIT_CONTAINERS),
    ],
)
def test_the_node_must_say_that_it_can(declared: list[str], after: dict[str, Any], missing: str) -> None:
    async def work(cluster: Cluster) -> None:
        status = {"allocatable": {"cpu": "8", "memory": "1Gi"}, "declaredFeatures": declared}
        await cluster.make("/api/v1/nodes", {"metadata": {"name": "n"}, "status": status})
        await cluster.pod(spec={**spec(), "nodeName": "n"})
        reply = await cluster.patch(f"{PODS}/a/resize", {"spec": after})
        message = f'pods "a" is forbidden: pod update requires features {missing} which are not available on node "n"'
        assert (reply.code, reply.json.get("message", "")) == ((403, message) if missing else (200, ""))

    in_cluster(work)


def test_nobody_is_asked_where_no_node_is() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.pod(spec=spec())
        assert (await cluster.patch(f"{PODS}/a/resize", {"spec": spec(own="3")})).code == 200

    in_cluster(work)
