"""NodeAffinity against a version that looks at one node at a time."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import Taint
from tests.scheduler.plugins.selector_oracle import matches_node_term, matches_required_affinity
from tests.scheduler.random_clusters import Situation, draw_nodes, few, rejections, scores, situations


@few
@given(situations(most_pods=0))
def test_required_node_affinity(situation: Situation) -> None:
    pod = situation.pod
    actual = rejections(situation.simulation("NodeAffinity"), "NodeAffinity", pod)
    rejected = {node.metadata.name for node in situation.nodes if not matches_required_affinity(node, pod)}
    assert actual.keys() == rejected
    allowed = (("node(s) didn't match Pod's node affinity/selector",), ("pod affinity terms conflict",))
    assert all(is_final and reasons in allowed for reasons, is_final in actual.values())


@few
@given(situations(most_pods=0), st.data())
def test_preferred_node_affinity(situation: Situation, data: st.DataObject) -> None:
    pod, among = situation.pod, draw_nodes(situation, data)
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    preferred = affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity is not None else []
    raw = {
        node.metadata.name: sum(term.weight for term in preferred if matches_node_term(term.preference, node))
        for node in among
    }
    most = max(raw.values())
    expected = {name: 100 * weight // most if most else 0 for name, weight in raw.items()}
    actual = scores(situation.simulation("NodeAffinity"), "NodeAffinity", pod, list(raw))
    assert actual == (expected if preferred else None)


@few
@given(situations(most_pods=2), st.data())
def test_a_changed_node_is_filtered_again(situation: Situation, data: st.DataObject) -> None:
    plugins = "TaintToleration", "NodeAffinity"
    simulation = situation.simulation(*plugins)
    for name in plugins:
        rejections(simulation, name, situation.pod)  # fills the caches
    changed = data.draw(st.sampled_from(situation.nodes))
    other = msgspec.structs.replace(
        changed,
        metadata=msgspec.structs.replace(changed.metadata, labels={"disk": "ssd"}),
        spec=msgspec.structs.replace(changed.spec, taints=[Taint(key="k", value="v", effect="NoExecute")]),
    )
    simulation.add_node(other)
    situation.nodes = [other if node is changed else node for node in situation.nodes]
    fresh = situation.simulation(*plugins)
    for name in plugins:
        assert rejections(simulation, name, situation.pod) == rejections(fresh, name, situation.pod)
