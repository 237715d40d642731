"""NodeName against a version that looks at one node at a time."""

from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.random_clusters import Situation, few, rejections, situations


@few
@given(situations(most_pods=0), st.sampled_from(["", "n0", "n1", "gone"]))
def test_only_the_named_node_passes(situation: Situation, name: str) -> None:
    situation.pod.spec.nodeName = name
    expected = {
        node.metadata.name: (("node(s) didn't match the requested node name",), True)
        for node in situation.nodes
        if name and node.metadata.name != name
    }
    assert rejections(situation.simulation("NodeName"), "NodeName", situation.pod) == expected
