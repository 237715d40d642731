"""Pod groups with the real kubectl, as in the example: all pods of a group are scheduled, or none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.e2e.kubectl.command import Kubectl
from tests.e2e.kubectl.namespace_objects import NamespaceObjects

EXAMPLE = Path(__file__).parents[3] / "examples" / "gang.yaml"
GROUP, CONDITION = "podgroup/training", "--for=condition=PodGroupInitiallyScheduled"


@pytest.fixture(scope="module")
def sampan_cluster() -> Iterator[Cluster]:
    versions, gates = {"scheduling.k8s.io/v1beta1": True}, {"GenericWorkload": True}
    with Cluster(nodes=3, runtime_config=versions, feature_gates=gates) as cluster:
        yield cluster


def nodes(objects: NamespaceObjects) -> list[str]:
    """Return the nodes of the pods that are scheduled, one for each."""
    return [pod["spec"]["nodeName"] for pod in objects.list("pods") if pod["spec"].get("nodeName")]


def test_pod_group_of_the_example_is_scheduled(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    assert (
        kubectl("apply", "-f", str(EXAMPLE))
        == "podgroup.scheduling.k8s.io/training created\njob.batch/training created\n"
    )
    assert "condition met" in kubectl("wait", GROUP, CONDITION, "--timeout=100s")
    kubectl("wait", "pods", "-l", "job-name=training", "--for=condition=PodScheduled", "--timeout=100s")
    assert len(nodes(objects)) == 3


def test_no_pod_of_a_group_that_does_not_fit_is_scheduled(kubectl: Kubectl, objects: NamespaceObjects) -> None:
    """Each pod of the group would fit on a node alone."""
    manifest = EXAMPLE.read_text().replace("cpu: 500m", "cpu: 20")
    for key in ("minCount", "parallelism", "completions"):
        manifest = manifest.replace(f"{key}: 3", f"{key}: 6")
    kubectl("apply", "-f", "-", stdin=manifest)
    assert "condition met" in kubectl("wait", GROUP, f"{CONDITION}=False", "--timeout=100s")
    kubectl("wait", "pods", "-l", "job-name=training", "--for=condition=PodScheduled=False", "--timeout=100s")
    assert nodes(objects) == []
    (condition,) = objects.get(GROUP)["status"]["conditions"]
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith("minCount (6) cannot be satisfied: 3 scheduled, 2 remaining")
    shortage = "pod group is unschedulable, minCount (6) cannot be satisfied: 3 scheduled, 2 remaining"
    conditions = [condition for pod in objects.list("pods") for condition in pod["status"]["conditions"]]
    messages = [condition["message"] for condition in conditions if condition["type"] == "PodScheduled"]
    assert any(message.startswith(shortage) for message in messages), messages
