"""No product of lists in a tenant's objects holds the event loop for long, be it in the API server, in controllers, in
the scheduler, in hollow kubelets or in the dashboard."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sampan.testing import Cluster
from tests.growth.attack import MOST_HOLD_S, measure, prepare
from tests.growth.attacks import ATTACKS
from tests.input_cost import is_cpu_time_within

SIZE, LARGE_SIZE = 40, 100
MOST_KEPT_BYTES, MOST_KEPT_OF_LARGE_BYTES = 20 << 20, 128 << 20
"""How much more memory the process may have afterwards, beside what the watch caches remember of the objects for some
minutes: `HISTORY_FACTOR` times their size."""
HISTORY_FACTOR = 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(level="nodes", nodes=2, insecure=True) as cluster:
        asyncio.run(prepare(cluster))
        yield cluster


async def _check(cluster: Cluster, name: str, size: int, most_kept_bytes: int) -> None:
    attack = ATTACKS[name]
    figures = await measure(cluster, attack.steps(size), attack.subscriptions)
    hold, codes = figures.hold, figures.codes
    assert max(codes) < 500, figures.failure
    assert codes[200] + codes[201] + codes[400] + codes[422] > 0, figures.failure
    assert is_cpu_time_within(hold.cpu_s, MOST_HOLD_S), (
        f"{name}: the loop was held for {hold.cpu_s:.3f} s\n{hold.stack}"
    )
    max_bytes = most_kept_bytes + HISTORY_FACTOR * figures.sent_bytes
    if figures.kept_bytes >= max_bytes:
        # Memory that the first attack freed, and that the allocator has kept, is used again by the second one.
        figures = await measure(cluster, attack.steps(size), attack.subscriptions)
    assert figures.kept_bytes < max_bytes, (
        f"{name}: {figures.kept_bytes >> 20} MiB were kept of {figures.sent_bytes >> 10} KiB"
    )


@pytest.mark.parametrize("name", ATTACKS)
async def test_product_does_not_hold_the_event_loop(cluster: Cluster, name: str) -> None:
    await _check(cluster, name, SIZE, MOST_KEPT_BYTES)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ATTACKS)
async def test_large_product_does_not_hold_the_event_loop(cluster: Cluster, name: str) -> None:
    await _check(cluster, name, LARGE_SIZE, MOST_KEPT_OF_LARGE_BYTES)
