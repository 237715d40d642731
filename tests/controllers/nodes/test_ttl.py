"""ttl-controller: how long kubelets may cache secrets and config maps."""

import pytest

from sampan.api.types.core_v1 import Node
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.controllers.nodes.ttl import ANNOTATION, next_step
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing, cluster

TTL = "ttl-controller"


@pytest.mark.parametrize(
    ("step", "nodes", "expected"),
    [(0, 100, 0), (0, 101, 1), (1, 90, 1), (1, 89, 0), (0, 5000, 4), (4, 0, 0), (2, 1001, 3), (3, 899, 2)],
)
def test_ttl_steps_have_hysteresis(step: int, nodes: int, expected: int) -> None:
    assert next_step(step, nodes) == expected


async def ttls(c: Cluster) -> dict[str, str]:
    """The annotations by node."""
    nodes = (await c.client.for_kind(Node).list()).items
    return {node.metadata.name: node.metadata.annotations[ANNOTATION] for node in nodes}


async def test_nodes_get_the_ttl_annotation() -> None:
    async with cluster() as c:
        nodes = c.client.for_kind(Node)
        async with c.running(TTL):
            names = [f"n{at}" for at in range(101)]
            for name in names[:100]:
                await nodes.create(Node(metadata=ObjectMeta(name=name)))
            await c.clock.advance(1)
            assert await ttls(c) == dict.fromkeys(names[:100], "0")
            await nodes.create(Node(metadata=ObjectMeta(name="n100")))
            await c.clock.advance(1)
            assert await ttls(c) == dict.fromkeys(names[:100], "0") | {"n100": "15"}, "other nodes did not change"
            await nodes.patch("n0", {"metadata": {"labels": {"a": "b"}}})
            await c.clock.advance(1)
            assert (await ttls(c))["n0"] == "15"
        async with c.running(TTL):
            await c.clock.advance(1)
            assert await ttls(c) == dict.fromkeys(names, "15")
        await check_second_run_writes_nothing(c, TTL)
