"""The fixtures of the pytest plugin under short names: `cluster` for `sampan_cluster`, and so on.

They are a plugin of their own, so that the setting `sampan_short_names = false` leaves them out. A fixture with the
same name in a test module or conftest.py wins over them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import kr8s
    import lightkube

    from sampan.testing.cluster import Cluster


@pytest.fixture(scope="session")
def cluster(sampan_cluster: Cluster) -> Cluster:
    """The cluster that all tests of the run share: `sampan_cluster`."""
    return sampan_cluster


@pytest.fixture
def forked_cluster(sampan_fork: Cluster) -> Cluster:
    """A fork of the cluster for this test alone: `sampan_fork`."""
    return sampan_fork


@pytest.fixture
def namespace(sampan_namespace: str) -> str:
    """The name of a namespace that only this test uses: `sampan_namespace`."""
    return sampan_namespace


@pytest.fixture(scope="module")
def module_namespace(sampan_module_namespace: str) -> str:
    """The name of a namespace that the tests of a module share: `sampan_module_namespace`."""
    return sampan_module_namespace


@pytest.fixture(scope="session")
def session_namespace(sampan_session_namespace: str) -> str:
    """The name of a namespace that all tests of the run share: `sampan_session_namespace`."""
    return sampan_session_namespace


@pytest.fixture
def kubeconfig(sampan_kubeconfig: Path) -> Path:
    """A kubeconfig file with the namespace of the test: `sampan_kubeconfig`."""
    return sampan_kubeconfig


@pytest.fixture
def kubernetes_client(sampan_kubernetes_client: Any) -> Any:
    """An ApiClient of the package `kubernetes`: `sampan_kubernetes_client`."""
    return sampan_kubernetes_client


@pytest.fixture
def kubernetes_asyncio_client(sampan_kubernetes_asyncio_client: Callable[[], Any]) -> Callable[[], Any]:
    """A function that creates an ApiClient of the package `kubernetes_asyncio`: `sampan_kubernetes_asyncio_client`."""
    return sampan_kubernetes_asyncio_client


@pytest.fixture
def kr8s_client(sampan_kr8s_client: kr8s.Api) -> kr8s.Api:
    """The API object of the package `kr8s`: `sampan_kr8s_client`."""
    return sampan_kr8s_client


@pytest.fixture
def lightkube_client(sampan_lightkube_client: lightkube.Client) -> lightkube.Client:
    """A Client of the package `lightkube`: `sampan_lightkube_client`."""
    return sampan_lightkube_client
