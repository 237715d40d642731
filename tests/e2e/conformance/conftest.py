"""Fixtures of the conformance tests: an API client for the cluster that all tests share, or a real node for each module
whose tests are scenarios (`tests.e2e.conformance.storage.real_node`)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.e2e.conformance.api import Api
from tests.e2e.conformance.fast_selection import FAST_SELECTION
from tests.e2e.conformance.storage.real_node import Batch, real_cluster

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and item.path.is_relative_to(HERE):
            names = FAST_SELECTION.get(item.path.relative_to(HERE).as_posix())
            if names is not None and item.originalname not in names:
                item.add_marker(pytest.mark.official)


@pytest.fixture
def api(sampan_cluster: Cluster, sampan_namespace: str) -> Iterator[Api]:
    """A client in a namespace of the test's own."""
    api = Api(sampan_cluster, sampan_namespace)
    yield api
    api.close()


@pytest.fixture(scope="module")
def batch(request: pytest.FixtureRequest) -> Batch:
    """The results of all selected scenarios of this module."""
    functions = [item for item in request.session.items if isinstance(item, pytest.Function)]
    items = [item for item in functions if item.module is request.module]
    chosen = [item.function.scenario for item in items if hasattr(item.function, "scenario")]
    with real_cluster() as cluster:
        return Batch(cluster, chosen)
