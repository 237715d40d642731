"""InterPodAffinity against its oracle."""

from collections.abc import Sequence
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.types.core_v1 import (
    Affinity,
    Container,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
)
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from tests.scheduler.plugins.selector_oracle import term_matches
from tests.scheduler.random_clusters import (
    HOSTNAME,
    ZONE,
    Rejections,
    Situation,
    few,
    profile_with,
    rejections,
    scores,
    situations,
)

AFFINITY = (("node(s) didn't match pod affinity rules",), True)
ANTI = (("node(s) didn't match pod anti-affinity rules",), False)
EXISTING = (("node(s) didn't satisfy existing pods anti-affinity rules",), False)


def affinity_part(pod: Pod, name: str) -> Any:
    return getattr(pod.spec.affinity, name) if pod.spec.affinity is not None else None


def required_terms(pod: Pod, name: str) -> Sequence[Any]:
    affinity = affinity_part(pod, name)
    return affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity is not None else []


def preferred_terms(pod: Pod, name: str) -> Sequence[Any]:
    affinity = affinity_part(pod, name)
    return affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity is not None else []


def are_in_same_domain(first: Node, other: Node, key: str) -> bool:
    return key in first.metadata.labels and first.metadata.labels[key] == other.metadata.labels.get(key)


def expected_rejection(situation: Situation, node: Node) -> Any:
    pod, spaces = situation.pod, situation.namespaces
    near = required_terms(pod, "podAffinity")
    fitting = [
        (other, home)
        for other, home in situation.placed_pods
        if near and all(term_matches(term, pod, other, spaces) for term in near)
    ]
    if any(term.topologyKey not in node.metadata.labels for term in near):
        return AFFINITY
    if not all(any(are_in_same_domain(node, home, term.topologyKey) for _, home in fitting) for term in near):
        known = any(term.topologyKey in home.metadata.labels for term in near for _, home in fitting)
        if known or not all(term_matches(term, pod, pod, spaces) for term in near):
            return AFFINITY
    for term in required_terms(pod, "podAntiAffinity"):
        if any(
            term_matches(term, pod, other, spaces) and are_in_same_domain(node, home, term.topologyKey)
            for other, home in situation.placed_pods
        ):
            return ANTI
    for other, home in situation.placed_pods:
        for term in required_terms(other, "podAntiAffinity"):
            if term_matches(term, other, pod, spaces) and are_in_same_domain(node, home, term.topologyKey):
                return EXISTING
    return None


near_terms = st.builds(
    PodAffinityTerm,
    labelSelector=st.sampled_from([LabelSelector(matchLabels={"app": app}) for app in "aab"]),
    topologyKey=st.sampled_from([ZONE, HOSTNAME]),
    namespaceSelector=st.sampled_from([None, None, LabelSelector(), LabelSelector(matchLabels={"team": "one"})]),
)


@st.composite
def dense_situations(draw: Any) -> Situation:
    """Few kinds of pods on labelled nodes, so that terms often match a pod, and sometimes only the new pod."""

    def pod(name: str, node: str, near: int, away: int) -> Pod:
        affinity = Affinity(
            podAffinity=PodAffinity(
                requiredDuringSchedulingIgnoredDuringExecution=draw(st.lists(near_terms, max_size=near))
            ),
            podAntiAffinity=PodAntiAffinity(
                requiredDuringSchedulingIgnoredDuringExecution=draw(st.lists(near_terms, max_size=away))
            ),
        )
        meta = ObjectMeta(
            name=name,
            namespace=draw(st.sampled_from("xxy")),
            uid=name,
            labels={"app": draw(st.sampled_from("aab"))},
        )
        return Pod(metadata=meta, spec=PodSpec(nodeName=node, containers=[Container(name="c")], affinity=affinity))

    nodes = [
        Node(metadata=ObjectMeta(name=f"n{at}", labels={ZONE: "ab"[at % 2], HOSTNAME: f"n{at}"}))
        for at in range(draw(st.integers(2, 4)))
    ]
    there = [pod(f"p{at}", f"n{at % len(nodes)}", 0, 1) for at in range(draw(st.integers(0, 3)))]
    teams = st.sampled_from([{"team": "one"}, {"team": "two"}])
    return Situation(nodes, there, pod("new", "", 2, 1), {"x": draw(teams), "y": draw(teams)})


many = hypothesis.settings(max_examples=100, deadline=None)


@many
@given(st.one_of(dense_situations(), dense_situations(), dense_situations(), dense_situations(), situations()))
def test_required_terms(situation: Situation) -> None:
    expected: Rejections = {}
    for node in situation.nodes:
        if (rejection := expected_rejection(situation, node)) is not None:
            expected[node.metadata.name] = rejection
    assert rejections(situation.simulation("InterPodAffinity"), "InterPodAffinity", situation.pod) == expected


def raw_score(situation: Situation, node: Node, *, hard: int, ignores: bool) -> int:
    pod, spaces, total = situation.pod, situation.namespaces, 0
    own = [*preferred_terms(pod, "podAffinity"), *preferred_terms(pod, "podAntiAffinity")]
    for other, home in situation.placed_pods:
        weights = [
            (weighted.podAffinityTerm, weighted.weight, pod, other) for weighted in preferred_terms(pod, "podAffinity")
        ]
        weights += [
            (weighted.podAffinityTerm, -weighted.weight, pod, other)
            for weighted in preferred_terms(pod, "podAntiAffinity")
        ]
        if not ignores or own:
            weights += [(term, hard, other, pod) for term in required_terms(other, "podAffinity")]
            weights += [
                (weighted.podAffinityTerm, weighted.weight, other, pod)
                for weighted in preferred_terms(other, "podAffinity")
            ]
            weights += [
                (weighted.podAffinityTerm, -weighted.weight, other, pod)
                for weighted in preferred_terms(other, "podAntiAffinity")
            ]
        for term, weight, owner, about in weights:
            if term_matches(term, owner, about, spaces) and are_in_same_domain(node, home, term.topologyKey):
                total += weight
    return total


@pytest.mark.parametrize(("hard", "ignores"), [(1, False), (7, False), (1, True)])
def test_preferred_terms(hard: int, ignores: bool) -> None:
    args = {"hardPodAffinityWeight": hard, "ignorePreferredTermsOfExistingPods": ignores}
    profile = profile_with("InterPodAffinity", **args)

    @few
    @given(situations(), st.data())
    def check(situation: Situation, data: st.DataObject) -> None:
        among = data.draw(
            st.lists(st.sampled_from(situation.nodes), min_size=1, unique_by=lambda node: node.metadata.name)
        )
        raw = {node.metadata.name: raw_score(situation, node, hard=hard, ignores=ignores) for node in among}
        least, most = min(raw.values()), max(raw.values())
        expected = {
            name: int(100 * ((score - least) / (most - least))) if most > least else 0 for name, score in raw.items()
        }
        actual = scores(situation.simulation(profile=profile), "InterPodAffinity", situation.pod, list(raw))
        assert (actual or dict.fromkeys(raw, 0)) == expected

    check()


@many
@given(
    st.one_of(dense_situations(), dense_situations(), dense_situations(), dense_situations(), situations()), st.data()
)
def test_changed_namespace_labels_are_followed(situation: Situation, data: st.DataObject) -> None:
    simulation = situation.simulation("InterPodAffinity")
    rejections(simulation, "InterPodAffinity", situation.pod)
    namespace: str = data.draw(st.sampled_from("xy"))
    situation.namespaces[namespace] = {"team": data.draw(st.sampled_from(["one", "two"]))}
    simulation.table.counts.set_namespace(namespace, situation.namespaces[namespace])
    fresh = situation.simulation("InterPodAffinity")
    names = [node.metadata.name for node in situation.nodes]
    assert rejections(simulation, "InterPodAffinity", situation.pod) == rejections(
        fresh, "InterPodAffinity", situation.pod
    )
    zero = dict.fromkeys(names, 0)
    assert (scores(simulation, "InterPodAffinity", situation.pod, names) or zero) == (
        scores(fresh, "InterPodAffinity", situation.pod, names) or zero
    )
