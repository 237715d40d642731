"""NodeUnschedulable against a version that looks at one node at a time."""

from hypothesis import given

from sampan.api.types.core_v1 import Taint
from tests.scheduler.plugins.selector_oracle import is_taint_tolerated
from tests.scheduler.random_clusters import Situation, few, rejections, situations

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@few
@given(situations(most_pods=0))
def test_cordoned_nodes_need_a_toleration(situation: Situation) -> None:
    pod = situation.pod
    expected = {
        node.metadata.name: (("node(s) were unschedulable",), True)
        for node in situation.nodes
        if node.spec.unschedulable and not is_taint_tolerated(CORDON, pod.spec.tolerations)
    }
    assert rejections(situation.simulation("NodeUnschedulable"), "NodeUnschedulable", pod) == expected
