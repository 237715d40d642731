"""TaintToleration against a version that looks at one node at a time."""

from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Node
from tests.scheduler.plugins.selector_oracle import has_untolerated_taints, is_taint_tolerated
from tests.scheduler.random_clusters import Situation, draw_nodes, few, rejections, scores, situations


@few
@given(situations(most_pods=0))
def test_untolerated_taints_reject_a_node(situation: Situation) -> None:
    expected = {
        node.metadata.name: (("node(s) had untolerated taint(s)",), True)
        for node in situation.nodes
        if has_untolerated_taints(node, situation.pod)
    }
    assert rejections(situation.simulation("TaintToleration"), "TaintToleration", situation.pod) == expected


@few
@given(situations(most_pods=0), st.data())
def test_untolerated_prefer_no_schedule_taints_lower_the_score(situation: Situation, data: st.DataObject) -> None:
    among = draw_nodes(situation, data)

    def count_untolerated_preferences(node: Node) -> int:
        concerned = [
            toleration for toleration in situation.pod.spec.tolerations if toleration.effect in ("", "PreferNoSchedule")
        ]
        soft = [taint for taint in node.spec.taints if taint.effect == "PreferNoSchedule"]
        return sum(not is_taint_tolerated(taint, concerned) for taint in soft)

    raw = {node.metadata.name: count_untolerated_preferences(node) for node in among}
    most = max(raw.values())
    expected = {name: 100 - 100 * count // most if most else 100 for name, count in raw.items()}
    assert scores(situation.simulation("TaintToleration"), "TaintToleration", situation.pod, list(expected)) == expected
