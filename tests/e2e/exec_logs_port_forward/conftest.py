"""One cluster for each module of tests of exec, logs, attach and port-forward; each test creates its own pods."""

import glob
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.exec_logs_port_forward.cluster import StreamingCluster, streaming_cluster
from tests.e2e.kubectl.command import Kubectl, find_kubectl


def _programs() -> list[str]:
    """Return every kubectl of this machine: old versions use SPDY, newer ones WebSocket. SAMPAN_KUBECTLS adds more (a
    glob)."""
    more = sorted(glob.glob(os.environ.get("SAMPAN_KUBECTLS", "")))
    return [program for program in (find_kubectl(), *more) if program]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StreamingCluster]:
    with streaming_cluster(tmp_path_factory.mktemp("streaming")) as cluster_:
        yield cluster_


@pytest.fixture(params=_programs() or ["none"])
def real_kubectl(request: pytest.FixtureRequest, cluster: StreamingCluster, tmp_path: Path) -> Kubectl:
    if request.param == "none":
        pytest.skip("there is no kubectl here")
    return Kubectl(program=request.param, kubeconfig=cluster.kubeconfig(), home=tmp_path)


_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """A pod name that no other test of this process uses."""
    return f"pod-{next(_numbers)}"
