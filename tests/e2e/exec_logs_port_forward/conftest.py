"""One cluster for all tests of looking in; each makes pods of its own."""

import glob
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.exec_logs_port_forward.cluster import LookedInto, looked_into
from tests.e2e.kubectl.command import Kubectl, find


def _programs() -> list[str]:
    """Every kubectl there is: old ones speak SPDY, newer ones WebSocket. SAMPAN_KUBECTLS adds some (a glob)."""
    more = sorted(glob.glob(os.environ.get("SAMPAN_KUBECTLS", "")))
    return [program for program in (find(), *more) if program]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LookedInto]:
    with looked_into(tmp_path_factory.mktemp("looked")) as cluster_:
        yield cluster_


@pytest.fixture(params=_programs() or ["none"])
def kubectl_of(request: pytest.FixtureRequest, cluster: LookedInto, tmp_path: Path) -> Kubectl:
    if request.param == "none":
        pytest.skip("there is no kubectl here")
    return Kubectl(program=request.param, kubeconfig=cluster.kubeconfig(), home=tmp_path)


_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    """The name of a pod that no other test of this process has."""
    return f"pod-{next(_numbers)}"
