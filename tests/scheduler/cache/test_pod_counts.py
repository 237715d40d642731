"""Counts of pods by class and node: the index finds all matches, and compares only pods that may match."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import NOTHING, Selector
from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.scheduler.cache.label_groups import LabelGroup, PodClass, PodSelector
from sampan.scheduler.cache.pod_counts import PodCounts, bucket_of, buckets_of
from sampan.scheduler.cache.pod_info import PodInfo, PodInfoTable
from tests.scheduler.random_clusters import few, labels, selectors

SPACES = {"x": {"team": "one"}, "y": {"team": "two"}}
namespace_selectors = st.sampled_from([None, LabelSelector(), LabelSelector(matchLabels={"team": "one"})])


def pod_selector(selector: LabelSelector | None, spaces: list[str], by_label: LabelSelector | None) -> PodSelector:
    other = selector_of(by_label) if by_label is not None else NOTHING
    return PodSelector(selector_of(selector), frozenset(spaces), other)


pod_classes = st.lists(
    st.builds(pod_selector, selectors, st.lists(st.sampled_from("xy"), max_size=2), namespace_selectors),
    min_size=1,
    max_size=2,
).map(lambda pod_selectors: PodClass(tuple(pod_selectors)))
groups = st.builds(LabelGroup, st.sampled_from(["x", "y", ""]), labels, st.just(False))


@given(pod_classes, groups)
def test_bucket_of_a_matching_class_is_found(pod_class: PodClass, group: LabelGroup) -> None:
    buckets = list(buckets_of(group))
    assert len(buckets) == len(set(buckets))
    if pod_class.matches(group, SPACES):
        assert bucket_of(pod_class.selectors) in buckets


def pod(name: str, namespace: str, own: dict[str, str]) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=name, labels=own))


steps = st.lists(st.tuples(st.sampled_from("xy"), labels, st.integers(0, 2)), min_size=1, max_size=12)


@few
@given(st.lists(pod_classes, min_size=1, max_size=3), steps, st.data())
def test_counts_match_after_pods_are_added_and_removed(
    classes: list[PodClass], steps: list[tuple[str, dict[str, str], int]], data: st.DataObject
) -> None:
    table = PodInfoTable()
    counts = PodCounts(table, 3)
    for name, namespace_labels in SPACES.items():
        counts.set_namespace(name, namespace_labels)
    tallies = [counts.tally(pod_class) for pod_class in classes]
    added: list[tuple[PodInfo, int]] = []
    for number, (namespace, own, row) in enumerate(steps):
        removes_pod: bool = data.draw(st.booleans())
        if added and removes_pod:
            info, at = added.pop(data.draw(st.integers(0, len(added) - 1)))
            counts.remove(info, at)
        info = table.info(pod(f"p{number}", namespace, own))
        counts.add(info, row)
        added.append((info, row))
    for pod_class, tally in zip(classes, tallies, strict=True):
        expected = [0, 0, 0]
        for info, row in added:
            expected[row] += pod_class.matches(info.group, SPACES)
        assert tally.per_node.tolist() == expected
        assert tally.total == sum(expected)


def test_1000_selectors_are_compared_only_with_their_own_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 1000 Deployments has its own selector, which is not compared with the pods of others."""
    comparisons = 0
    matches = PodClass.matches

    def count_match(pod_class: PodClass, group: LabelGroup, spaces: object) -> bool:
        nonlocal comparisons
        comparisons += 1
        return matches(pod_class, group, spaces)  # type: ignore[arg-type]

    monkeypatch.setattr(PodClass, "matches", count_match)
    table = PodInfoTable()
    counts = PodCounts(table, 1)
    held = []
    for number in range(1000):
        own = {"app": f"a{number}"}
        selector = PodSelector(selector_of(LabelSelector(matchLabels=own)), frozenset(("x",)))
        held.append(counts.tally(PodClass((selector,))))
        counts.add(table.info(pod(f"p{number}", "x", own)), 0)
    assert [tally.total for tally in held] == [1] * 1000
    assert comparisons == 1000


def test_unreferenced_pod_classes_are_dropped() -> None:
    counts = PodCounts(PodInfoTable(), 1)
    pod_class = PodClass((PodSelector(Selector(), frozenset(("x",))),))
    held = counts.tally(pod_class)
    assert list(counts._classes) == [pod_class]
    del held
    gc.collect()
    assert list(counts._classes) == []
