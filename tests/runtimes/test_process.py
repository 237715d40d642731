"""Plain processes pass what of the suite does not need more than they have."""

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

_SHARED = "plain processes have the machine's"
_WITHOUT = (
    *(Feature.FILES, Feature.MOUNTS, Feature.NETWORK, Feature.HOSTNAME, Feature.DNS, Feature.SYSCTLS),
    *(Feature.SHARED_PROCESSES, Feature.LIMITS, Feature.USERS, Feature.CAPABILITIES, Feature.PRIVILEGED),
)
_LACKS = dict.fromkeys(_WITHOUT, _SHARED) | {Feature.PULL: "the only image is the machine itself"}
if shutil.which("busybox") is None:
    _LACKS[Feature.CONNECT] = "there is no busybox to be connected to"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_conformance(check: Check, tmp_path: Path) -> None:
    node = tmp_path / "node"

    @asynccontextmanager
    async def opened(on_change: PodCallback) -> AsyncIterator[Runtime]:
        async with ProcessRuntime(directory=node, clock=RealClock(), on_pod_change=on_change) as runtime:
            yield runtime
            if not runtime.known_pods():
                await MonitorClient(node / "monitor").quit()

    subject = Subject(open=opened, directory=tmp_path, image=host.NAME, lacks=_LACKS)
    if why := missing(check, subject):
        pytest.skip(why)
    run(check, subject)
