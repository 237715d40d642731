"""The conformance suite of runtimes, with plain processes, without the checks that need isolation."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sampan.machinery.clock import RealClock
from sampan.runtimes.contract import PodCallback, Runtime
from sampan.runtimes.images import host
from sampan.runtimes.monitor.client import MonitorClient
from sampan.runtimes.process import ProcessRuntime
from sampan.testing.runtime_conformance import CHECKS, Check, Feature, Subject, missing, run

_SHARED = "plain processes share this with the machine"
_WITHOUT = (
    *(Feature.FILES, Feature.MOUNTS, Feature.NETWORK, Feature.HOSTNAME, Feature.DNS, Feature.SYSCTLS),
    *(Feature.SHARED_PROCESSES, Feature.LIMITS, Feature.USERS, Feature.CAPABILITIES, Feature.PRIVILEGED),
)
_LACKS = dict.fromkeys(_WITHOUT, _SHARED) | {Feature.PULL: "the only image is the machine itself"}
if shutil.which("busybox") is None:
    _LACKS[Feature.CONNECT] = "busybox is not installed"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_conformance(check: Check, tmp_path: Path) -> None:
    node = tmp_path / "node"

    @asynccontextmanager
    async def open_runtime(on_change: PodCallback) -> AsyncIterator[Runtime]:
        async with ProcessRuntime(directory=node, clock=RealClock(), on_pod_change=on_change) as runtime:
            yield runtime
            if not runtime.known_pods():
                await MonitorClient(node / "monitor").quit()

    subject = Subject(open=open_runtime, directory=tmp_path, image=host.NAME, lacks=_LACKS)
    if reason := missing(check, subject):
        pytest.skip(reason)
    run(check, subject)
