"""NodeUnschedulable, NodeName, TaintToleration, NodeAffinity and NodeDeclaredFeatures against their oracles."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import ContainerRestartRule, Node, Taint
from tests.scheduler.plugins.selector_oracle import have_untolerated_taints, let_in, node_term, tolerated
from tests.scheduler.random_clusters import Situation, few, refusals, scores, situations

CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


@few
@given(situations(most_pods=0))
def test_cordoned_nodes(situation: Situation) -> None:
    pod = situation.pod
    expected = {
        node.metadata.name: (("node(s) were unschedulable",), True)
        for node in situation.nodes
        if node.spec.unschedulable and not tolerated(CORDON, pod.spec.tolerations)
    }
    assert refusals(situation.simulation(), "NodeUnschedulable", pod) == expected


@few
@given(situations(most_pods=0), st.sampled_from(["", "n0", "n1", "gone"]))
def test_a_named_node(situation: Situation, name: str) -> None:
    situation.pod.spec.nodeName = name
    expected = {
        node.metadata.name: (("node(s) didn't match the requested node name",), True)
        for node in situation.nodes
        if name and node.metadata.name != name
    }
    assert refusals(situation.simulation(), "NodeName", situation.pod) == expected


@few
@given(situations(most_pods=0))
def test_taints(situation: Situation) -> None:
    expected = {
        node.metadata.name: (("node(s) had untolerated taint(s)",), True)
        for node in situation.nodes
        if have_untolerated_taints(node, situation.pod)
    }
    assert refusals(situation.simulation(), "TaintToleration", situation.pod) == expected


@few
@given(situations(most_pods=0), st.data())
def test_taints_that_speak_against_a_node(situation: Situation, data: st.DataObject) -> None:
    among = _some(situation, data)

    def count_untolerated_preferences(node: Node) -> int:
        concerned = [
            toleration for toleration in situation.pod.spec.tolerations if toleration.effect in ("", "PreferNoSchedule")
        ]
        soft = [taint for taint in node.spec.taints if taint.effect == "PreferNoSchedule"]
        return sum(not tolerated(taint, concerned) for taint in soft)

    raw = {node.metadata.name: count_untolerated_preferences(node) for node in among}
    most = max(raw.values())
    expected = {name: 100 - 100 * count // most if most else 100 for name, count in raw.items()}
    assert scores(situation.simulation(), "TaintToleration", situation.pod, list(expected)) == expected


@few
@given(situations(most_pods=0))
def test_required_node_affinity(situation: Situation) -> None:
    pod = situation.pod
    actual = refusals(situation.simulation(), "NodeAffinity", pod)
    refused = {node.metadata.name for node in situation.nodes if not let_in(node, pod)}
    assert actual.keys() == refused
    allowed = (("node(s) didn't match Pod's node affinity/selector",), ("pod affinity terms conflict",))
    assert all(is_final and reasons in allowed for reasons, is_final in actual.values())


@few
@given(situations(most_pods=0), st.data())
def test_preferred_node_affinity(situation: Situation, data: st.DataObject) -> None:
    pod, among = situation.pod, _some(situation, data)
    affinity = pod.spec.affinity.nodeAffinity if pod.spec.affinity is not None else None
    preferred = affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity is not None else []
    raw = {
        node.metadata.name: sum(term.weight for term in preferred if node_term(term.preference, node)) for node in among
    }
    most = max(raw.values())
    expected = {name: 100 * weight // most if most else 0 for name, weight in raw.items()}
    actual = scores(situation.simulation(), "NodeAffinity", pod, list(raw))
    assert actual == (expected if preferred else None)


FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "SomethingElse")


@few
@given(situations(most_pods=0), st.booleans(), st.sampled_from([None, True, False]), st.booleans(), st.data())
def test_declared_features(
    situation: Situation, restarts_all: bool, host_users: bool | None, host_network: bool, data: st.DataObject
) -> None:
    pod = situation.pod
    assert pod.spec.containers
    action = "RestartAllContainers" if restarts_all else "Restart"
    pod.spec.containers[0].restartPolicyRules = [ContainerRestartRule(action=action)]
    pod.spec.hostUsers, pod.spec.hostNetwork = host_users, host_network
    for node in situation.nodes:
        node.status.declaredFeatures = data.draw(st.lists(st.sampled_from(FEATURES), unique=True))
    needed = set(FEATURES[:1] if restarts_all else ()) | set(
        FEATURES[1:2] if host_network and host_users is False else ()
    )
    expected = {
        node.metadata.name: (("node(s) didn't match Pod's required features",), True)
        for node in situation.nodes
        if needed - set(node.status.declaredFeatures)
    }
    assert refusals(situation.simulation(), "NodeDeclaredFeatures", pod) == expected


@few
@given(situations(most_pods=2), st.data())
def test_a_node_that_changes_is_looked_at_again(situation: Situation, data: st.DataObject) -> None:
    simulation = situation.simulation()
    before = {name: refusals(simulation, name, situation.pod) for name in ("TaintToleration", "NodeAffinity")}
    changed = data.draw(st.sampled_from(situation.nodes))
    other = msgspec.structs.replace(
        changed,
        metadata=msgspec.structs.replace(changed.metadata, labels={"disk": "ssd"}),
        spec=msgspec.structs.replace(changed.spec, taints=[Taint(key="k", value="v", effect="NoExecute")]),
    )
    simulation.add_node(other)
    situation.nodes = [other if node is changed else node for node in situation.nodes]
    fresh = situation.simulation()
    for name in before:
        assert refusals(simulation, name, situation.pod) == refusals(fresh, name, situation.pod)


def _some(situation: Situation, data: st.DataObject) -> list[Node]:
    return data.draw(st.lists(st.sampled_from(situation.nodes), min_size=1, unique_by=lambda node: node.metadata.name))
