"""The conformance suite of runtimes, with hollow containers, without the checks that need real programs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from sampan.api.types.core_v1 import Pod
from sampan.host.clock import RealClock
from sampan.runtimes.contract import PodCallback, Runtime
from sampan.runtimes.hollow import HollowRuntime
from sampan.runtimes.hollow.behavior import PREFIX
from sampan.runtimes.hollow.runtime import HollowWorld
from sampan.testing.runtime_conformance import Check, Feature, Subject, run
from tests.runtimes.conformance_checks import select_checks

_LACKS = dict.fromkeys(frozenset(Feature) - {Feature.ADDRESS, Feature.NETWORK}, "nothing runs")
_CHECKS = [check for check in select_checks(_LACKS) if check.name != "loopback_interface_belongs_to_the_pod"]


def _prepare(pod: Pod, container: str, exit_code: int | None) -> None:
    settings = {"run": "forever" if exit_code is None else "0", "exit-code": str(exit_code or 0)}
    pod.metadata.annotations |= {f"{PREFIX}{name}.{container}": value for name, value in settings.items()}


@pytest.mark.parametrize("check", _CHECKS, ids=lambda check: check.name)
def test_conformance(check: Check, tmp_path: Path) -> None:
    @asynccontextmanager
    async def open_runtime(on_change: PodCallback) -> AsyncIterator[Runtime]:
        yield HollowRuntime(world=HollowWorld(clock=RealClock()))

    run(check, Subject(open=open_runtime, directory=tmp_path, image="busybox", lacks=_LACKS, prepare=_prepare))
