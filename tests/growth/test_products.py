"""No product of lists in a tenant's objects holds the event loop for long, be it in the API server, in controllers, in
the scheduler or in hollow kubelets."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from sampan.testing import Cluster
from tests.apiserver.http.wire import Wire
from tests.growth.cost import without_collector
from tests.growth.loop_meter import QUIET_PART, Hold, LoopMeter
from tests.growth.products import COLLECTIONS, NAMESPACE, PRODUCTS, Steps, Write, pods
from tests.input_cost import is_cpu_time_within

SIZE, LARGE_SIZE = 40, 100
MOST_HOLD_S = 0.1
"""The longest CPU time for which the loop may run no other work."""
MOST_KEPT_BYTES, MOST_KEPT_OF_LARGE_BYTES = 20 << 20, 128 << 20
"""How much more memory the process may have afterwards, beside what the watch caches remember of the objects for some
minutes: `HISTORY_FACTOR` times their size."""
HISTORY_FACTOR = 16
_AS_TENANT = {"Impersonate-User": "tenant"}
_LANES = 4
_SAMPLE_S = 0.1
_CALM_SAMPLES = 3
_QUIET_TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(level="nodes", nodes=2, insecure=True) as cluster:
        asyncio.run(_prepare(_port(cluster)))
        asyncio.run(Attack(cluster, [pods(4, node=False)]).run())  # load what is only loaded when it is needed
        yield cluster


def _port(cluster: Cluster) -> int:
    port = urlsplit(cluster.insecure_url).port
    assert port is not None
    return port


async def _prepare(port: int) -> None:
    """Create the namespace, and a tenant who is not limited by authorization, but by flow control."""
    group = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": "tenant"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "tenant"}],
    }
    async with Wire(port) as wire:
        for path, value in (
            ("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}),
            (f"/apis/{group}/v1/clusterrolebindings", binding),
        ):
            response = await wire.request("POST", path, value)
            assert response.code == 201, response.body


class Attack:
    """Creates and deletes the objects of a product in a cluster, and measures the loop of the cluster meanwhile."""

    def __init__(self, cluster: Cluster, steps: Steps) -> None:
        self._port, self._loop = _port(cluster), cluster.run(_running_loop())
        self._steps = steps
        self.codes: Counter[int] = Counter()
        self.failure = b""

    async def run(self) -> Hold:
        """Return the longest hold of the loop, of those while the objects are created and while they are deleted."""
        holds = [await self._measure(work) for work in (self._create, self._delete)]
        return max(holds, key=lambda hold: hold.cpu_s)

    async def _measure(self, work: Callable[[], Awaitable[None]]) -> Hold:
        meter = LoopMeter(self._loop)
        meter.start()
        try:
            await work()
            await _wait_until_quiet(meter)
        finally:
            hold = meter.stop()
        return hold

    async def _create(self) -> None:
        for step in self._steps:
            await asyncio.gather(*(self._send(step[lane::_LANES]) for lane in range(_LANES)))

    async def _send(self, writes: Sequence[Write]) -> None:
        async with Wire(self._port) as wire:
            for sent in writes:
                headers = _AS_TENANT | {"Content-Type": sent.media}
                response = await wire.request(sent.method, sent.path, sent.value, headers)
                self.codes[response.code] += 1
                self.failure = response.body[:500] if response.code >= 400 else self.failure

    async def _delete(self) -> None:
        async with Wire(self._port) as wire:
            for path in COLLECTIONS:
                await wire.request("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def _wait_until_quiet(meter: LoopMeter) -> None:
    """Wait until the controllers, the scheduler and the nodes have nothing left to do."""
    calm = 0
    async with asyncio.timeout(_QUIET_TIMEOUT_S):
        while calm < _CALM_SAMPLES:
            before = meter.cpu_s()
            await asyncio.sleep(_SAMPLE_S)
            calm = calm + 1 if meter.cpu_s() - before < QUIET_PART * _SAMPLE_S else 0


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def _check(cluster: Cluster, name: str, size: int, most_kept_bytes: int) -> None:
    steps = PRODUCTS[name](size)
    sent = sum(len(msgspec.json.encode(write.value)) for step in steps for write in step)
    before = _resident_bytes()
    with without_collector():
        attack = Attack(cluster, steps)
        hold = await attack.run()
        if hold.cpu_s > MOST_HOLD_S:  # something else may have used the loop: modules that are imported when needed
            hold = min(hold, await attack.run(), key=lambda measured: measured.cpu_s)
    gc.collect()
    kept = _resident_bytes() - before
    assert max(attack.codes) < 500, attack.failure
    assert attack.codes[200] + attack.codes[201] + attack.codes[400] > 0, attack.failure
    assert is_cpu_time_within(hold.cpu_s, MOST_HOLD_S), (
        f"{name}: the loop was held for {hold.cpu_s:.3f} s\n{hold.stack}"
    )
    assert kept < most_kept_bytes + HISTORY_FACTOR * sent, f"{name}: {kept >> 20} MiB were kept of {sent >> 10} KiB"


@pytest.mark.parametrize("name", PRODUCTS)
async def test_product_does_not_hold_the_event_loop(cluster: Cluster, name: str) -> None:
    await _check(cluster, name, SIZE, MOST_KEPT_BYTES)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", PRODUCTS)
async def test_large_product_does_not_hold_the_event_loop(cluster: Cluster, name: str) -> None:
    await _check(cluster, name, LARGE_SIZE, MOST_KEPT_OF_LARGE_BYTES)
