"""`sampan kube-scheduler`: the scheduler in a process of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Node, Pod
from sampan.machinery.client import PatchType, Selection
from sampan.testing import Cluster, builders
from tests.cli.command import Sampan

NAME = "kube-scheduler"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(components=["apiserver", "controllers"], controllers=["serviceaccount-controller"]) as cluster:
        yield cluster


async def make_node(cluster: Cluster, name: str) -> None:
    nodes = cluster.client.of(Node)
    await nodes.create(builders.node(name))
    await nodes.patch(name, {"spec": {"taints": None}}, type=PatchType.MERGE)
    there = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    await nodes.patch(name, {"status": {"allocatable": there}}, subresource="status")


async def bound(cluster: Cluster, name: str) -> str:
    """The node of the pod, once it has one."""
    chosen = Selection(namespace="default", fields=f"metadata.name={name}")
    async with cluster.client.of(Pod).watch(chosen, initial_events=True) as events:
        async for batch in events:
            for event in batch:
                if event.key.name and event.object.spec.nodeName:
                    return str(event.object.spec.nodeName)
    return ""


def test_a_scheduler_elsewhere(sampan: Sampan, cluster: Cluster) -> None:
    cluster.run(make_node(cluster, "a"))
    cluster.run(cluster.client.of(Pod).create(builders.pod("p", namespace="default")))
    with sampan.running(NAME, "--kubeconfig", str(cluster.kubeconfig), "--secure-port", "0") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{NAME} has started\n"
        assert cluster.run(bound(cluster, "p")) == "a"
        lease = cluster.run(cluster.client.of(Lease).get(NAME, "kube-system"))
        assert lease.spec.holderIdentity


def test_a_profile_of_ones_own(sampan: Sampan, cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine}]\n"
    )
    cluster.run(make_node(cluster, "a"))
    pod = builders.pod("p", namespace="default")
    pod.spec.schedulerName = "mine"
    cluster.run(cluster.client.of(Pod).create(pod))
    words = ("--kubeconfig", str(cluster.kubeconfig), "--secure-port", "0", "--leader-elect=false")
    with sampan.running(NAME, *words, "--config", str(config)):
        assert cluster.run(bound(cluster, "p")) == "a"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("kind: Pod\napiVersion: v1\n", "want KubeSchedulerConfiguration"),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "profiles: [{plugins: {filter: {enabled: [{name: Nothing}]}}}]\n",
            "there is no plug-in 'Nothing'",
        ),
    ],
)
def test_a_configuration_that_makes_no_sense(sampan: Sampan, tmp_path: Path, text: str, told: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    done = sampan.run(NAME, "--config", str(config))
    assert done.returncode != 0
    assert "--config" in done.stderr
    assert told in done.stderr
