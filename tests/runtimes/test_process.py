"""The conformance suite of runtimes, with plain processes, without the checks that need isolation."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.host.clock import RealClock
from sampan.runtimes.contract import PodCallback
from sampan.runtimes.images import host
from sampan.runtimes.monitor.client import MonitorClient
from sampan.runtimes.process import ProcessRuntime
from sampan.testing.runtime_conformance import Check, Feature, Subject, run, skip_reason
from tests.ports import free_port
from tests.runtimes.conformance_checks import select_checks

_SHARED = "plain processes share this with the machine"
_WITHOUT = (
    *(Feature.FILES, Feature.MOUNTS, Feature.NETWORK, Feature.HOSTNAME, Feature.DNS, Feature.SYSCTLS),
    *(Feature.SHARED_PROCESSES, Feature.LIMITS, Feature.USERS, Feature.CAPABILITIES, Feature.PRIVILEGED),
)
_LACKS = dict.fromkeys(_WITHOUT, _SHARED) | {Feature.PULL: "the only image is the machine itself"}
_CHECKS = select_checks(_LACKS)
if shutil.which("busybox") is None:
    _LACKS[Feature.CONNECT] = "busybox is not installed"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a node. Its monitor serves all checks."""
    directory = tmp_path_factory.mktemp("node")
    yield directory
    asyncio.run(MonitorClient(directory / "monitor").quit(kill=True))


@pytest.mark.parametrize("check", _CHECKS, ids=lambda check: check.name)
def test_conformance(check: Check, node: Path, tmp_path: Path) -> None:
    def open_runtime(on_change: PodCallback) -> ProcessRuntime:
        return ProcessRuntime(directory=node, clock=RealClock(), on_pod_change=on_change)

    subject = Subject(open=open_runtime, directory=tmp_path, image=host.NAME, lacks=_LACKS, port=free_port())
    if reason := skip_reason(check, subject):
        pytest.skip(reason)
    run(check, subject)
