"""Fixtures of all end-to-end tests."""

import gc
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.machine import calibration
from sampan.cli.main import COLLECTED_AFTER
from sampan.machinery.telemetry import loop_watchdog
from sampan.testing import Cluster
from tests.e2e.kubectl.command import Kubectl, find_kubectl
from tests.e2e.kubectl.namespace_objects import NamespaceObjects


class _Stalls(logging.Handler):
    """Collects the messages of the loop watchdog about blocked event loops."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "importlib._bootstrap" not in message and not _is_caused_by_others(
            record.args
        ):  # a module is imported only once
            self.messages.append(message)


def _is_caused_by_others(stalls: object) -> bool:
    """Whether the work of a stall is short enough on a machine that is not busy with other work: on a busy one it takes
    more CPU time, as cores and caches are shared."""
    stall = stalls[0] if isinstance(stalls, tuple) and stalls else None
    return isinstance(stall, loop_watchdog.LoopStall) and stall.cpu_s < loop_watchdog.STALL_S * calibration(tries=1)


@pytest.fixture(scope="session", autouse=True)
def _server_gc_thresholds() -> Iterator[None]:
    """Use the garbage collection thresholds of a server: a test process has many objects, and a full collection would
    block the event loop of a cluster."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*COLLECTED_AFTER)
    yield
    gc.set_threshold(*thresholds)


@pytest.fixture(autouse=True)
def _event_loop_is_not_blocked() -> Iterator[None]:
    """Fail a test in which a cluster of this process blocked its event loop for 250 ms, and show the stack."""
    stalls = _Stalls()
    loop_watchdog.log.addHandler(stalls)
    yield
    loop_watchdog.log.removeHandler(stalls)
    assert not stalls.messages, "the event loop was blocked:\n" + "\n".join(stalls.messages)


@pytest.fixture(scope="session")
def kubectl_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory for the caches of kubectl, so that caches of other clusters are not used."""
    return tmp_path_factory.mktemp("kubectl")


@pytest.fixture
def kubectl(sampan_kubeconfig: Path, kubectl_home: Path) -> Kubectl:
    """The real kubectl, in a namespace of the test's own. A module whose tests need another cluster overrides the
    fixture `sampan_cluster`."""
    program = find_kubectl()
    if program is None:
        pytest.skip("there is no kubectl here")
    return Kubectl(program=program, kubeconfig=sampan_kubeconfig, home=kubectl_home)


@pytest.fixture
def objects(sampan_test_cluster: Cluster, sampan_namespace: str) -> NamespaceObjects:
    """The objects in the namespace of the fixture `kubectl`."""
    return NamespaceObjects(sampan_test_cluster, sampan_namespace)
