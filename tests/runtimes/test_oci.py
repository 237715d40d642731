"""The conformance suite of runtimes, with crun and with runc."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from sampan.host.clock import RealClock
from sampan.runtimes.contract import PodCallback, Runtime
from sampan.runtimes.images import ImageStore
from sampan.runtimes.images.archives import load
from sampan.runtimes.images.pull import ImagePuller
from sampan.runtimes.monitor.client import MonitorClient
from sampan.runtimes.network import NoNetwork
from sampan.runtimes.oci import OciRuntime
from sampan.runtimes.oci.binary import find_programs
from sampan.testing.runtime_conformance import Check, Feature, Subject, run
from tests.runtimes import engines, leftovers, registry
from tests.runtimes.conformance_checks import select_checks
from tests.runtimes.engines import BUSYBOX
from tests.runtimes.images.builders import docker_archive
from tests.skips import find_missing

PROGRAMS = find_programs()
pytestmark = pytest.mark.skipif(
    bool(engines.missing_requirement()), reason=engines.missing_requirement() or "installed"
)
_LACKS = {Feature.ADDRESS: "these pods have no network"}
_CHECKS = select_checks(_LACKS)


@pytest.fixture(scope="module")
def images() -> Iterator[ImageStore]:
    with engines.scratch_directory() as directory:
        store = ImageStore(directory / "store")
        archive = docker_archive(directory / "busybox.tar", engines.busybox_image(), BUSYBOX)
        load(store, archive, now=0)
        yield store


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with registry.serving(engines.busybox_image("registry"), "busybox", "pulled") as address:
        yield address


@pytest.fixture(scope="module", params=["crun", "runc"])
def program(request: pytest.FixtureRequest) -> str:
    if missing := find_missing(request.param):
        pytest.skip(missing)
    return str(request.param)


@pytest.fixture(scope="module")
def node(program: str) -> Iterator[Path]:
    """The directory of a node. Its monitor serves all checks with this program."""
    with engines.scratch_directory() as directory:
        yield directory
        asyncio.run(MonitorClient(directory / "monitor").quit(kill=True))


@pytest.mark.parametrize("check", _CHECKS, ids=lambda check: check.name)
def test_conformance(program: str, check: Check, images: ImageStore, address: str, node: Path, tmp_path: Path) -> None:
    @asynccontextmanager
    async def open_runtime(on_change: PodCallback) -> AsyncIterator[Runtime]:
        async with AsyncExitStack() as stack:
            puller = ImagePuller(store=images, clock=RealClock()) if Feature.PULL in check.needs else None
            if puller is not None:
                await stack.enter_async_context(puller)
            runtime = OciRuntime(
                directory=node,
                images=images,
                network=NoNetwork(),
                programs={program: PROGRAMS[program]},
                clock=RealClock(),
                on_pod_change=on_change,
                puller=puller,
            )
            yield await stack.enter_async_context(runtime)

    subject = Subject(
        open=open_runtime,
        directory=tmp_path,
        image=BUSYBOX,
        lacks=_LACKS,
        left=lambda uid: leftovers.find_leftovers(uid, node),
        registry=address,
    )
    run(check, subject)
