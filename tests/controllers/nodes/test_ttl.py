"""ttl-controller: how long kubelets may cache secrets and config maps."""

import pytest

from sampan.api.types.core_v1 import Node
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.nodes.ttl import ANNOTATION, next_step
from tests.controllers.cluster import cluster, second_run_writes_nothing

TTL = "ttl-controller"


@pytest.mark.parametrize(
    ("step", "nodes", "expected"),
    [(0, 100, 0), (0, 101, 1), (1, 90, 1), (1, 89, 0), (0, 5000, 4), (4, 0, 0), (2, 1001, 3), (3, 899, 2)],
)
def test_ttl_steps_have_hysteresis(step: int, nodes: int, expected: int) -> None:
    assert next_step(step, nodes) == expected


async def test_nodes_get_the_ttl_annotation() -> None:
    async with cluster() as c:
        nodes = c.client.of(Node)
        async with c.running(TTL):
            for at in range(101):
                await nodes.create(Node(metadata=ObjectMeta(name=f"n{at}")))
            await c.clock.advance(1)
            ttls = [node.metadata.annotations[ANNOTATION] for node in (await nodes.list()).items]
            assert set(ttls[:100]) <= {"0", "15"}
            await nodes.patch("n0", {"metadata": {"labels": {"a": "b"}}})
            await c.clock.advance(1)
            assert (await nodes.get("n0")).metadata.annotations[ANNOTATION] == "15"
        async with c.running(TTL):
            await c.clock.advance(1)
        await second_run_writes_nothing(c, TTL)
