"""One cluster with a real node for a module of tests, and a namespace with the real kubectl in it for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import real_cluster
from tests.e2e.kubectl.command import Kubectl, find


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with real_cluster("scheduler") as cluster:
        yield cluster


@pytest.fixture
def kubectl_here(cluster: Cluster, kubectl_home: Path) -> Iterator[Kubectl]:
    """Of the cluster with a real node; `kubectl` is of the one that all tests share."""
    program = find()
    if program is None:
        pytest.skip("there is no kubectl here")
    with cluster.namespace("cli") as namespace:
        kubectl = Kubectl(program=program, kubeconfig=cluster.kubeconfig_for(namespace), home=kubectl_home)
        yield kubectl
        kubectl("delete", "rc,deployments,pods", "--all", "--grace-period=0", "--force", "--wait=false")
