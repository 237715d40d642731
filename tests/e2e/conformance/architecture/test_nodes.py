"""The conformance test of sig-architecture. The first paragraph of the docstring is the official test name."""

from sampan.api.codec import json as codec
from sampan.api.types.core_v1 import Node, Pod
from tests.e2e.conformance.apps.replica_cluster import ReplicaCluster, condition, is_running, run_scenario


def test_two_untainted_nodes() -> None:
    """[sig-architecture] Conformance Tests should have at least two untainted nodes [Conformance]"""

    async def scenario(c: ReplicaCluster) -> None:
        await c.clock.advance(2)
        nodes = (await c.for_kind(Node).list()).items
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

    run_scenario(scenario)
