from typing import Any

import pytest

from sampan.api.types.core_v1 import Toleration
from sampan.apiserver.admission.runtime_class import merged
from tests.apiserver.cluster import Cluster, in_cluster

CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
CLASS = {
    "metadata": {"name": "r"},
    "handler": "h",
    "overhead": {"podFixed": {"cpu": "1000m"}},
    "scheduling": {"nodeSelector": {"rt": "yes"}, "tolerations": [{"key": "rt", "operator": "Exists"}]},
}


def test_a_pod_takes_what_its_class_says() -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(CLASSES, CLASS)
        spec = (await cluster.pod(spec={"runtimeClassName": "r", "nodeSelector": {"a": "b"}}))["spec"]
        assert spec["nodeSelector"] == {"a": "b", "rt": "yes"}
        assert [toleration["key"] for toleration in spec["tolerations"]] == [
            "node.kubernetes.io/not-ready",
            "node.kubernetes.io/unreachable",
            "rt",
        ]
        assert spec["overhead"] == {"cpu": "1"}
        assert (await cluster.pod("b", {"runtimeClassName": "r", "overhead": {"cpu": "1"}}))["spec"]["overhead"]

    in_cluster(work)


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
def test_refusals(spec: dict[str, Any], text: str) -> None:
    async def work(cluster: Cluster) -> None:
        await cluster.make(CLASSES, CLASS)
        code, message = await cluster.refused(spec)
        assert code == 403
        assert message.endswith(f"is forbidden: {text}")

    in_cluster(work)


def test_tolerations_that_others_cover_are_left_out() -> None:
    all_of_them = Toleration(operator="Exists")
    toleration = Toleration(key="a", operator="Equal", value="b", effect="NoSchedule")
    assert merged([toleration, toleration]) == [toleration]
    assert merged([toleration, all_of_them]) == [all_of_them]
    assert merged([Toleration(key="a", operator="Exists", effect="NoExecute"), toleration])[1] == toleration
