"""One cluster for each module, and a namespace for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.e2e.conformance.scheduling.scheduling_cluster import NODES, SchedulingCluster
from tests.e2e.kubectl.command import Kubectl, find_kubectl


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=len(NODES)) as cluster:
        cluster.warm_up()
        yield cluster


@pytest.fixture
def scheduling_cluster(cluster: Cluster, kubectl_home: Path) -> Iterator[SchedulingCluster]:
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl here")
    with cluster.namespace("sched") as namespace:
        kubectl = Kubectl(program=program, kubeconfig=cluster.kubeconfig_for(namespace), home=kubectl_home)
        scheduling_cluster = SchedulingCluster(cluster, kubectl, namespace)
        yield scheduling_cluster
        scheduling_cluster.clear()
