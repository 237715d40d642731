"""One cluster for the tests of the dashboard in a module."""

from collections.abc import Iterator

import pytest

from sampan.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(components=("apiserver", "controllers")) as running:
        yield running
