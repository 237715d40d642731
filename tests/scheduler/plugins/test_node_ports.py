"""NodePorts against a version that looks at one node at a time."""

from typing import Any

from hypothesis import given

from sampan.api.types.core_v1 import Pod
from tests.scheduler.random_clusters import Situation, few, rejections, situations


@few
@given(situations())
def test_host_ports_in_use_reject_a_node(situation: Situation) -> None:
    def host_ports(pod: Pod) -> list[Any]:
        return [
            (port.hostIP or "0.0.0.0", port.protocol, port.hostPort)
            for container in pod.spec.containers or ()
            for port in container.ports
            if port.hostPort
        ]

    def clash(item: Any, other: Any) -> bool:
        return item[1:] == other[1:] and (item[0] == other[0] or "0.0.0.0" in (item[0], other[0]))

    expected = {
        node.metadata.name: (("node(s) didn't have free ports for the requested pod ports",), False)
        for node in situation.nodes
        if any(
            clash(requested, used)
            for requested in host_ports(situation.pod)
            for pod in situation.pods_on(node)
            for used in host_ports(pod)
        )
    }
    assert rejections(situation.simulation("NodePorts"), "NodePorts", situation.pod) == expected
