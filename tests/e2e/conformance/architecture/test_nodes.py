"""The conformance description of sig-architecture, a test whose first line is its name."""

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Node, Pod
from tests.e2e.conformance.apps.replica_cluster import Replicated, condition, is_running, play


def test_two_nodes() -> None:
    """[sig-architecture] Conformance Tests should have at least two untainted nodes [Conformance]"""

    async def scenario(c: Replicated) -> None:
        await c.clock.advance(2)
        nodes = (await c.of(Node).list()).items
        assert len(nodes) >= 2
        for node in nodes:
            assert (node.spec.taints, node.spec.unschedulable) == ([], False)
            assert condition(node, "Ready").status == "True"
        for name in ("first", "second"):
            container = {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
            value = {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container]}}
            await c.create(codec.from_value(value, Pod))
        pods = await c.pods()
        assert all(map(is_running, pods))
        assert len({pod.spec.nodeName for pod in pods}) == 2

    play(scenario)
