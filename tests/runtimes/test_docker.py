"""The conformance suite of runtimes, with real Docker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.host.clock import RealClock
from sampan.runtimes import kernel
from sampan.runtimes.contract import PodCallback
from sampan.runtimes.docker import DockerRuntime
from sampan.runtimes.network import NoNetwork
from sampan.testing.runtime_conformance import Check, Feature, Subject, run, skip_reason
from tests.runtimes import engines, leftovers, registry
from tests.runtimes.conformance_checks import select_checks
from tests.runtimes.engines import BUSYBOX, Engine

pytestmark = pytest.mark.skipif(
    bool(engines.missing_requirement("dockerd", "containerd", "runc")),
    reason=engines.missing_requirement("dockerd", "containerd", "runc"),
)
_LACKS = {Feature.ADDRESS: "these pods have no network"}
_CHECKS = select_checks(_LACKS)
if not kernel.may_lower_oom_score():
    _LACKS[Feature.PRIVILEGED] = "Docker grants all capabilities, and this machine does not have all of them"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engines.docker() as engine:
        yield engine


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with registry.serving(engines.busybox_image("registry"), "busybox", "pulled") as address:
        yield address


@pytest.mark.parametrize("check", _CHECKS, ids=lambda check: check.name)
def test_conformance(check: Check, engine: Engine, address: str, tmp_path: Path) -> None:
    def open_runtime(on_change: PodCallback) -> DockerRuntime:
        return DockerRuntime(
            socket=str(engine.socket),
            directory=engine.directory / "node",
            node="checks",
            clock=RealClock(),
            on_pod_change=on_change,
            network=NoNetwork(),
        )

    subject = Subject(
        open=open_runtime,
        directory=tmp_path,
        image=BUSYBOX,
        lacks=_LACKS,
        left=lambda uid: leftovers.find_leftovers(uid, engine.directory),
        registry=address,
    )
    if reason := skip_reason(check, subject):
        pytest.skip(reason)
    run(check, subject)
