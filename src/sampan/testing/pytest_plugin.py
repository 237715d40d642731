"""The pytest plug-in: a cluster for the whole run, and a namespace in it for each test.

pytest loads it wherever Sampan is installed, so it imports nothing expensive before a fixture is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

_READS_KUBECONFIG_WHEN_IMPORTED = ("kubernetes.config.kube_config", "kubernetes_asyncio.config.kube_config")

if TYPE_CHECKING:
    from sampan.machinery.client import Client
    from sampan.testing.cluster import Cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sampan", "Sampan: a Kubernetes cluster for tests")
    group.addoption(
        "--sampan-store",
        default="memory",
        metavar="STORE",
        help="where sampan_cluster keeps its objects: memory, sqlite, the path of a SQLite file, or URLs of etcd",
    )
    group.addoption(
        "--sampan-controllers",
        default="*",
        metavar="LIST",
        help="the controllers of sampan_cluster, with the words of `sampan up --controllers`",
    )
    group.addoption(
        "--sampan-runtime-config",
        default="",
        metavar="K=V,…",
        help="API versions of sampan_cluster to switch on or off, as of `sampan up --runtime-config`",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Exclude Sampan's modules from assertion rewriting: pytest rewrites everything that comes with a plug-in, which is
    slow, and Python 3.11 fails when two threads do so at a time, as the threads of a cluster may."""
    marked = getattr(getattr(config.pluginmanager, "rewrite_hook", None), "_must_rewrite", None)
    if isinstance(marked, set):
        marked.discard("sampan")


@pytest.fixture(scope="session")
def sampan_options(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The arguments of `sampan.testing.Cluster` for `sampan_cluster`. Override the fixture to change them."""
    from sampan.api import runtime_config

    words = pytestconfig.getoption("--sampan-controllers").split(",")
    return {
        "store": pytestconfig.getoption("--sampan-store"),
        "controllers": tuple(word.strip() for word in words if word.strip()),
        "runtime_config": runtime_config.parse(pytestconfig.getoption("--sampan-runtime-config")),
    }


@pytest.fixture(scope="session")
def sampan_cluster(sampan_options: dict[str, Any]) -> Iterator[Cluster]:
    """A cluster that all tests of the run share; under pytest-xdist each worker has its own."""
    from sampan.testing.cluster import Cluster

    with Cluster(**sampan_options) as cluster:
        cluster.warm_up()
        yield cluster


@pytest.fixture
def sampan_client(sampan_cluster: Cluster) -> Client:
    """Sampan's own client of the cluster; `sampan_cluster.run` runs its coroutines."""
    return sampan_cluster.client


@pytest.fixture
def sampan_namespace(sampan_cluster: Cluster) -> Iterator[str]:
    """The name of a namespace that only this test uses."""
    with sampan_cluster.namespace() as name:
        yield name


@pytest.fixture
def sampan_kubeconfig(sampan_cluster: Cluster, sampan_namespace: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig file with the namespace of the test. KUBECONFIG is set to it during the test, so that kubectl and
    client libraries use the cluster without further configuration."""
    path = sampan_cluster.kubeconfig_for(sampan_namespace)
    monkeypatch.setenv("KUBECONFIG", str(path))
    for name in _READS_KUBECONFIG_WHEN_IMPORTED:
        if name in sys.modules:
            monkeypatch.setattr(f"{name}.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    return path
