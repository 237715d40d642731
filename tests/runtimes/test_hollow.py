"""Hollow containers pass what of the suite does not need real programs, and say what they cannot do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.machinery.clock import RealClock
from sampan.runtimes.contract import PodCallback, Runtime
from sampan.runtimes.hollow import HollowRuntime
from sampan.runtimes.hollow.behaviour import PREFIX
from sampan.runtimes.hollow.runtime import World
from sampan.testing.runtime_conformance import CHECKS, Check, Feature, Subject, missing, run

_LACKS = {
    feature: "nothing runs" for feature in Feature if feature not in (Feature.ADDRESS, Feature.NETWORK, Feature.STATS)
} | {Feature.STATS: "what nothing uses is made up"}


def _prepare(pod: Pod, container: str, exit_code: int | None) -> None:
    settings = {"run": "forever" if exit_code is None else "0", "exit-code": str(exit_code or 0)}
    pod.metadata.annotations |= {f"{PREFIX}{name}.{container}": value for name, value in settings.items()}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_conformance(check: Check, tmp_path: Path) -> None:
    @asynccontextmanager
    async def opened(on_change: PodCallback) -> AsyncIterator[Runtime]:
        yield HollowRuntime(world=World(clock=RealClock()))

    lacks = (
        {**_LACKS, Feature.NETWORK: "nothing runs"} if check.name == "loopback_interface_belongs_to_the_pod" else _LACKS
    )
    subject = Subject(open=opened, directory=tmp_path, image="busybox", lacks=lacks, prepare=_prepare)
    if why := missing(check, subject):
        pytest.skip(why)
    run(check, subject)
