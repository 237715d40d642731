"""How often the overview reads what it cannot watch, and that a large cluster is shown before it has been counted."""

import pytest

from sampan.dashboard.overview.subscription import usage_interval_s
from sampan.testing import Cluster
from tests.dashboard.page import admin_page


@pytest.mark.parametrize(("nodes", "interval_s"), [(0, 29), (100, 29), (400, 119), (1000, 299), (50_000, 299)])
def test_the_use_of_many_nodes_is_read_less_often(nodes: int, interval_s: float) -> None:
    assert usage_interval_s(nodes) == interval_s


async def test_the_last_overview_of_the_first_lists_is_complete(cluster: Cluster) -> None:
    async with admin_page(cluster) as page, page.stream() as stream:
        await stream.send(id=1, op="subscribe", kind="overview")
        message = await stream.receive(type="snapshot", id=1)
        while not message["overview"]["isComplete"]:
            message = await stream.receive(type="changes", id=1)
        assert "forbidden" not in message["overview"]["pods"]
        while "store" not in message["overview"]:
            message = await stream.receive(type="changes", id=1)
        assert message["overview"]["store"]["objects"] > 0
