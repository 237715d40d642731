"""One cluster with a real node for each module, and a look at what it leaves behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import COMPONENTS, Batch, why_not


def mounted() -> set[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split(" ")[4] for line in lines if "/sampan-test-" in line.split(" ")[4]}


@pytest.fixture(scope="module")
def batch(request: pytest.FixtureRequest) -> Iterator[Batch]:
    """All scenarios of this module that were chosen."""
    if reason := why_not():
        pytest.skip(reason)
    items = [item for item in request.session.items if getattr(item, "module", None) is request.module]
    chosen = [getattr(item, "function").scenario for item in items if hasattr(getattr(item, "function"), "scenario")]  # noqa: B009
    before = mounted()
    with Cluster(nodes=1, runtime="oci", components=COMPONENTS) as cluster:
        yield Batch(cluster, chosen)
    assert sorted(mounted() - before) == []
