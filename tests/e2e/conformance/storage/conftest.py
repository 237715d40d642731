"""One cluster with a real node for each module, and a look at what it leaves behind."""

import pytest

from sampan.runtimes import kernel
from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import COMPONENTS, Batch, why_not


@pytest.fixture(scope="module")
def batch(request: pytest.FixtureRequest) -> Batch:
    """All scenarios of this module that were chosen, played to their end."""
    if reason := why_not():
        pytest.skip(reason)
    functions = [item for item in request.session.items if isinstance(item, pytest.Function)]
    items = [item for item in functions if item.module is request.module]
    chosen = [item.function.scenario for item in items if hasattr(item.function, "scenario")]
    with Cluster(nodes=1, runtime="oci", components=COMPONENTS) as cluster:
        home, played = cluster.kubeconfig.parent, Batch(cluster, chosen)
    assert kernel.mounts_below(home) == []
    return played
