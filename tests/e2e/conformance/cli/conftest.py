"""One cluster with a real node for each module, and a namespace with the real kubectl for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import real_cluster
from tests.e2e.kubectl.command import Kubectl, find_kubectl


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with real_cluster("scheduler") as cluster:
        yield cluster


@pytest.fixture
def real_node_kubectl(cluster: Cluster, kubectl_home: Path) -> Iterator[Kubectl]:
    """The real kubectl for the cluster with a real node; the fixture `kubectl` is for the cluster that all tests
    share."""
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl here")
    with cluster.namespace("cli") as namespace:
        kubectl = Kubectl(program=program, kubeconfig=cluster.kubeconfig_for(namespace), home=kubectl_home)
        yield kubectl
        kubectl("delete", "rc,deployments,pods", "--all", "--grace-period=0", "--force", "--wait=false")
