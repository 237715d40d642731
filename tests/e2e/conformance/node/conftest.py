"""One cluster with a real node for each module whose tests are scenarios (`tests.e2e.conformance.storage.real_node`),
and a look at what it leaves behind."""

from pathlib import Path

import pytest

from sampan.testing import Cluster
from tests.e2e.conformance.storage.real_node import COMPONENTS, Batch, why_not


def left_of(cluster_folder: Path, group: str) -> list[str]:
    """Mounts below the cluster's folder, and groups of processes of its node."""
    points = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*{group}") if group]
    groups += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{group.strip('/')}") if group]
    return sorted([point for point in points if point.startswith(str(cluster_folder))] + groups)


@pytest.fixture(scope="module")
def batch(request: pytest.FixtureRequest) -> Batch:
    """All scenarios of this module that were chosen, played to their end."""
    if reason := why_not():
        pytest.skip(reason)
    functions = [item for item in request.session.items if isinstance(item, pytest.Function)]
    items = [item for item in functions if item.module is request.module]
    chosen = [item.function.scenario for item in items if hasattr(item.function, "scenario")]
    with Cluster(nodes=1, runtime="oci", components=COMPONENTS) as cluster:
        assert cluster.assembly.real_nodes is not None
        config = cluster.assembly.real_nodes.kubelets[0].config
        played = Batch(cluster, chosen)
    assert left_of(config.root.parents[2], config.cgroup_root) == []
    return played
