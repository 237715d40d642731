"""Pod updates that require a feature which the node must declare in its status."""

from typing import Any

import pytest

from sampan.apiserver.admission.node_declared_feature_validator import INIT_CONTAINERS, POD_LEVEL
from tests.apiserver.cluster import PODS, Cluster, run_in_cluster
from tests.apiserver.pods import CONTAINER


def resource_requests(cpu: str, memory: str = "10Mi") -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}}


def spec(pod_level: str = "2", init: str = "1", sidecar: str = "1", main: str = "1") -> dict[str, Any]:
    return {
        **resource_requests(pod_level, "30Mi"),
        "initContainers": [
            {"name": "init", "image": "i", **resource_requests(init)},
            {"name": "side", "image": "i", "restartPolicy": "Always", **resource_requests(sidecar)},
        ],
        "containers": [{**CONTAINER, **resource_requests(main)}],
    }


@pytest.mark.parametrize(
    ("declared", "after", "missing"),
    [
        ([], spec(main="500m"), ""),
        ([], spec(sidecar="500m"), ""),
        ([], spec(pod_level="3"), POD_LEVEL),
        ([POD_LEVEL], spec(pod_level="3"), ""),
        ([], spec(init="500m"), INIT_CONTAINERS),
        ([INIT_CONTAINERS], spec(init="500m"), ""),
        ([], spec(pod_level="3", init="500m"), f"{POD_LEVEL}, {INIT_CONTAINERS}"),
        ([POD_LEVEL], spec(pod_level="3", init="500m"), INIT_CONTAINERS),
    ],
)
def test_resize_is_rejected_if_node_does_not_declare_required_features(
    declared: list[str], after: dict[str, Any], missing: str
) -> None:
    async def work(cluster: Cluster) -> None:
        status = {"allocatable": {"cpu": "8", "memory": "1Gi"}, "declaredFeatures": declared}
        await cluster.make("/api/v1/nodes", {"metadata": {"name": "n"}, "status": status})
        await cluster.create_pod(spec={**spec(), "nodeName": "n"})
        reply = await cluster.patch(f"{PODS}/a/resize", {"spec": after})
        message = f'pods "a" is forbidden: pod update requires features {missing} which are not available on node "n"'
        assert (reply.code, reply.json.get("message", "")) == ((403, message) if missing else (200, ""))

    run_in_cluster(work)


def test_resize_of_unbound_pod_is_not_checked() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.create_pod(spec=spec())
        assert (await cluster.patch(f"{PODS}/a/resize", {"spec": spec(pod_level="3")})).code == 200

    run_in_cluster(work)
