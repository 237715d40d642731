"""One cluster with a real node for each module, and a look at what it leaves behind."""

from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import COMPONENTS, Batch, why_not


def mounted() -> set[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split(" ")[4] for line in lines if "/sampan-test-" in line.split(" ")[4]}


@pytest.fixture(scope="module")
def batch(request: pytest.FixtureRequest) -> Batch:
    """All scenarios of this module that were chosen, played to their end."""
    if reason := why_not():
        pytest.skip(reason)
    functions = [item for item in request.session.items if isinstance(item, pytest.Function)]
    items = [item for item in functions if item.module is request.module]
    chosen = [item.function.scenario for item in items if hasattr(item.function, "scenario")]
    before = mounted()
    with Cluster(nodes=1, runtime="oci", components=COMPONENTS) as cluster:
        played = Batch(cluster, chosen)
    assert sorted(mounted() - before) == []
    return played
