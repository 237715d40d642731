"""Counts of pods: what the index finds is what matches, and many sorts and groups cost no more than their own."""

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


def pod_class(selector: LabelSelector | None, spaces: list[str], by_label: LabelSelector | None) -> PodSelector:
    other = selector_of(by_label) if by_label is not None else NOTHING
    return PodSelector(selector_of(selector), frozenset(spaces), other)


sorts = st.lists(
    st.builds(pod_class, selectors, st.lists(st.sampled_from("xy"), max_size=2), namespace_selectors),
    min_size=1,
    max_size=2,
).map(lambda pod_selectors: PodClass(tuple(pod_selectors)))
groups = st.builds(LabelGroup, st.sampled_from(["x", "y", ""]), labels, st.just(False))


@given(sorts, groups)
def test_what_matches_is_found(pod_class: PodClass, group: LabelGroup) -> None:
    buckets = list(buckets_of(group))
    assert len(buckets) == len(set(buckets))
    if pod_class.matches(group, SPACES):
        assert bucket_of(pod_class.selectors) in buckets


def pod(name: str, namespace: str, own: dict[str, str]) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=name, labels=own))


steps = st.lists(st.tuples(st.sampled_from("xy"), labels, st.integers(0, 2)), min_size=1, max_size=12)


@few
@given(st.lists(sorts, min_size=1, max_size=3), steps, st.data())
def test_counts_while_pods_come_and_go(
    classes: list[PodClass], steps: list[tuple[str, dict[str, str], int]], data: st.DataObject
) -> None:
    table = PodInfoTable()
    counts = PodCounts(table, 3)
    for name, namespace_labels in SPACES.items():
        counts.set_namespace(name, namespace_labels)
    early = [counts.tally(pod_class) for pod_class in classes]
    there: list[tuple[PodInfo, int]] = []
    for number, (namespace, own, row) in enumerate(steps):
        one_goes: bool = data.draw(st.booleans())
        if there and one_goes:
            info, at = there.pop(data.draw(st.integers(0, len(there) - 1)))
            counts.remove(info, at)
        info = table.info(pod(f"p{number}", namespace, own))
        counts.add(info, row)
        there.append((info, row))
    for pod_class, tally in zip(classes, early, strict=True):
        plain = [0, 0, 0]
        for info, row in there:
            plain[row] += pod_class.matches(info.group, SPACES)
        assert tally.per_node.tolist() == plain
        assert tally.total == sum(plain)


def test_a_thousand_deployments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its own selector and its own pods: nobody looks at those of the others."""
    looks = 0
    plain = PodClass.matches

    def counted(pod_class: PodClass, group: LabelGroup, spaces: object) -> bool:
        nonlocal looks
        looks += 1
        return plain(pod_class, group, spaces)  # type: ignore[arg-type]

    monkeypatch.setattr(PodClass, "matches", counted)
    table = PodInfoTable()
    counts = PodCounts(table, 1)
    held = []
    for number in range(1000):
        own = {"app": f"a{number}"}
        selector = PodSelector(selector_of(LabelSelector(matchLabels=own)), frozenset(("x",)))
        held.append(counts.tally(PodClass((selector,))))
        counts.add(table.info(pod(f"p{number}", "x", own)), 0)
    assert [tally.total for tally in held] == [1] * 1000
    assert looks == 1000


def test_sorts_that_nobody_holds_are_forgotten() -> None:
    counts = PodCounts(PodInfoTable(), 1)
    pod_class = PodClass((PodSelector(Selector(), frozenset(("x",))),))
    held = counts.tally(pod_class)
    assert list(counts._classes) == [pod_class]
    del held
    gc.collect()
    assert list(counts._classes) == []
