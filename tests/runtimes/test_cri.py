"""The conformance suite of runtimes, with real containerd."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sampan.host.clock import RealClock
from sampan.runtimes.contract import PodCallback
from sampan.runtimes.cri import CriRuntime
from sampan.testing.runtime_conformance import Check, Feature, Subject, run
from sampan.testing.runtime_conformance.bench import open_bench
from tests.runtimes import engines, leftovers, registry
from tests.runtimes.conformance_checks import select_checks
from tests.runtimes.engines import BUSYBOX, Engine

pytestmark = pytest.mark.skipif(
    bool(engines.missing_requirement("containerd", "runc")), reason=engines.missing_requirement("containerd", "runc")
)
_LACKS = {Feature.ENDS_ABANDONED: "containerd lets a command run on after its client has disconnected"}
_CHECKS = select_checks(_LACKS)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with engines.containerd() as engine:
        yield engine


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with registry.serving(engines.busybox_image("registry"), "busybox", "pulled") as address:
        yield address


@pytest.mark.parametrize("check", _CHECKS, ids=lambda check: check.name)
def test_conformance(check: Check, engine: Engine, address: str, tmp_path: Path) -> None:
    def open_runtime(on_change: PodCallback) -> CriRuntime:
        return CriRuntime(
            endpoint=str(engine.socket),
            directory=engine.directory / "node",
            node="checks",
            clock=RealClock(),
            on_pod_change=on_change,
            relist_s=0.1,
        )

    subject = Subject(
        open=open_runtime,
        directory=tmp_path,
        image=BUSYBOX,
        lacks=_LACKS,
        left=lambda uid: leftovers.find_leftovers(uid, engine.directory),
        registry=address,
    )
    run(check, subject)


async def test_nodes_that_share_an_engine_do_not_see_each_others_pods(engine: Engine, tmp_path: Path) -> None:
    """The nodes have the same name, as nodes of two clusters may."""

    def subject(name: str) -> Subject:
        def open_runtime(on_change: PodCallback) -> CriRuntime:
            directory = tmp_path / name
            return CriRuntime(
                endpoint=str(engine.socket), directory=directory, node="n", clock=RealClock(), on_pod_change=on_change
            )

        return Subject(
            open=open_runtime,
            directory=tmp_path,
            image=BUSYBOX,
            left=lambda uid: leftovers.find_leftovers(uid, engine.directory),
        )

    async with open_bench(subject("one")) as first, open_bench(subject("other")) as other:
        pod = await first.sandbox()
        assert first.runtime.list_pod_uids() == [pod.metadata.uid]
        await other.runtime.remove_pod(pod.metadata.uid)
        assert other.runtime.list_pod_uids() == []
        assert first.runtime.pod_report(pod).is_sandbox_ready
