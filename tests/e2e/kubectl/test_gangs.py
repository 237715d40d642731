"""Pod groups with the real kubectl, as in the example: all pods of a group are scheduled, or none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.e2e.kubectl.command import Kubectl, find

EXAMPLE = Path(__file__).parents[3] / "examples" / "gang.yaml"
GROUP, CONDITION = "podgroup/training", "--for=condition=PodGroupScheduled"
NODES = "{range .items[*]}{.spec.nodeName}{' '}{end}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, runtime_config={"scheduling.k8s.io/v1alpha2": True}) as cluster:
        yield cluster


@pytest.fixture
def kubectl(cluster: Cluster, kubectl_home: Path) -> Iterator[Kubectl]:
    program = find()
    if program is None:
        pytest.skip("there is no kubectl here")
    with cluster.namespace("gangs") as namespace:
        yield Kubectl(program=program, kubeconfig=cluster.kubeconfig_for(namespace), home=kubectl_home)


def test_pod_group_of_the_example_is_scheduled(kubectl: Kubectl) -> None:
    assert (
        kubectl("apply", "-f", str(EXAMPLE))
        == "podgroup.scheduling.k8s.io/training created\njob.batch/training created\n"
    )
    assert "condition met" in kubectl("wait", GROUP, CONDITION, "--timeout=100s")
    kubectl("wait", "pods", "-l", "job-name=training", "--for=condition=PodScheduled", "--timeout=100s")
    assert len(kubectl.jsonpath("get", "pods", NODES).split()) == 3


def test_no_pod_of_a_group_that_does_not_fit_is_scheduled(kubectl: Kubectl) -> None:
    """Each pod of the group would fit on a node alone."""
    manifest = EXAMPLE.read_text().replace("cpu: 500m", "cpu: 20")
    for key in ("minCount", "parallelism", "completions"):
        manifest = manifest.replace(f"{key}: 3", f"{key}: 6")
    kubectl("apply", "-f", "-", stdin=manifest)
    assert "condition met" in kubectl("wait", GROUP, f"{CONDITION}=False", "--timeout=100s")
    kubectl("wait", "pods", "-l", "job-name=training", "--for=condition=PodScheduled=False", "--timeout=100s")
    assert kubectl.jsonpath("get", "pods", NODES).split() == []
    output = kubectl.jsonpath("get", GROUP, "{.status.conditions[0].reason}: {.status.conditions[0].message}")
    assert output == "Unschedulable: pod group is unschedulable"
    waiting = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled"
    assert waiting in kubectl.jsonpath("get", "pods", "{.items[*].status.conditions[*].message}")
