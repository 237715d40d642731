"""The API of the cluster that all tests of the run share, in a namespace of the test's own."""

from collections.abc import Iterator

import pytest

from sampan.testing import Cluster
from tests.e2e.conformance.api import Api


@pytest.fixture
def api(sampan_cluster: Cluster, sampan_namespace: str) -> Iterator[Api]:
    found = Api(sampan_cluster, sampan_namespace)
    yield found
    found.close()
