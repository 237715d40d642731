from typing import Any

import pytest

from sampan.api.types.core_v1 import Toleration
from sampan.apiserver.admission.runtime_class import merge_tolerations
from tests.apiserver.cluster import Cluster, run_in_cluster

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
CLASS = {
    "metadata": {"name": "r"},
    "handler": "h",
    "overhead": {"podFixed": {"cpu": "1000m"}},
    "scheduling": {"nodeSelector": {"rt": "yes"}, "tolerations": [{"key": "rt", "operator": "Exists"}]},
}


def test_pod_gets_overhead_node_selector_and_tolerations_of_its_class() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(CLASSES, CLASS)
        spec = (await cluster.create_pod(spec={"runtimeClassName": "r", "nodeSelector": {"a": "b"}}))["spec"]
        assert spec["nodeSelector"] == {"a": "b", "rt": "yes"}
        assert [toleration["key"] for toleration in spec["tolerations"]] == [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
            "rt",
        ]
        assert spec["overhead"] == {"cpu": "1"}
        assert (await cluster.create_pod("b", {"runtimeClassName": "r", "overhead": {"cpu": "1"}}))["spec"]["overhead"]

    run_in_cluster(work)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
        (
            {"runtimeClassName": "r", "overhead": {"cpu": "2"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "2"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"runtimeClassName": "r", "nodeSelector": {"rt": "no"}},
            "conflict: runtimeClass.scheduling.nodeSelector[rt] = yes; pod.spec.nodeSelector[rt] = no",
        ),
    ],
)
def test_pod_that_conflicts_with_its_runtime_class_is_rejected(spec: dict[str, Any], text: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(CLASSES, CLASS)
        code, message = await cluster.try_create_pod(spec)
        assert code == 403
        assert message.endswith(f"is forbidden: {text}")

    run_in_cluster(work)


def test_redundant_tolerations_are_removed() -> None:
    tolerate_all = Toleration(operator="Exists")
    toleration = Toleration(key="a", operator="Equal", value="b", effect="NoSchedule")
    assert merge_tolerations([toleration, toleration]) == [toleration]
    assert merge_tolerations([toleration, tolerate_all]) == [tolerate_all]
    assert merge_tolerations([Toleration(key="a", operator="Exists", effect="NoExecute"), toleration])[1] == toleration
