"""NodeLabel, a plugin of classic policies, against a version that looks at one node at a time."""

from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.classic.policy_profile import LABELS, PLUGIN, simulate
from tests.scheduler.random_clusters import Situation, few, rejections, scores, situations


@few
@given(situations(most_pods=0), st.lists(st.sampled_from([*LABELS, "gone"]), unique=True), st.booleans())
def test_labels_must_be_present_or_absent(situation: Situation, labels: list[str], presence: bool) -> None:
    rejected = {
        node.metadata.name: (("node(s) didn't have the requested labels",), True)
        for node in situation.nodes
        if any((label in node.metadata.labels) != presence for label in labels)
    }
    simulation = simulate(situation, [], "NodeLabel", labels=labels, presence=presence)
    assert rejections(simulation, PLUGIN, situation.pod) == rejected


@few
@given(situations(most_pods=0), st.sampled_from([*LABELS, "gone"]), st.booleans())
def test_a_label_raises_the_score_of_a_node(situation: Situation, label: str, presence: bool) -> None:
    expected = {
        node.metadata.name: 100 if (label in node.metadata.labels) == presence else 0 for node in situation.nodes
    }
    simulation = simulate(situation, [], "NodeLabel", labels=[label], presence=presence)
    assert scores(simulation, PLUGIN, situation.pod, list(expected)) == expected
