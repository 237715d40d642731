"""The interval at which the overview reads resource usage, and the completeness of its snapshots."""

import pytest

from sampan.dashboard.overview.subscription import usage_interval_s
from sampan.testing import Cluster
from tests.dashboard.page import admin_page


@pytest.mark.parametrize(("nodes", "interval_s"), [(0, 29), (100, 29), (400, 119), (1000, 299), (50_000, 299)])
def test_usage_interval_grows_with_the_number_of_nodes(nodes: int, interval_s: float) -> None:
    assert usage_interval_s(nodes) == interval_s


async def test_overview_becomes_complete_after_the_initial_lists(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        await stream.send(id=1, op="subscribe", kind="overview")
        message = await stream.receive(type="snapshot", id=1)
        while not message["overview"]["isComplete"]:
            message = await stream.receive(type="changes", id=1)
        assert "forbidden" not in message["overview"]["pods"]
        while "store" not in message["overview"]:
            message = await stream.receive(type="changes", id=1)
        assert message["overview"]["store"]["objects"] > 0
