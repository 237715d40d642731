"""Which objects an owner looks at, and which owners an object concerns."""

from typing import Any

from sampan.api.label_selector import selector_of
from sampan.api.types.apps_v1 import ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement
from sampan.controllers.ownership.adoption import OwnerIndex, candidates, selector_or_nothing
from sampan.machinery.informer.cache import ObjectCache
from sampan.machinery.object_key import Key, key_of
from tests.controllers.ownership.objects import owner, pod


def cache_of(*objects: Any) -> ObjectCache[Any]:
    cache: ObjectCache[Any] = ObjectCache()
    for obj in objects:
        cache.put(key_of(obj), obj)
    return cache


def test_an_owner_looks_at_its_own_and_at_orphans_of_its_namespace() -> None:
    cache: ObjectCache[Pod] = cache_of(
        pod("mine", owned_by="owner-uid"), pod("theirs", owned_by="x"), pod("orphan"), pod("far", namespace="other")
    )
    assert {found.metadata.name for found in candidates(cache, owner())} == {"mine", "orphan"}
    cache.remove(Key("default", "orphan"))
    assert {found.metadata.name for found in candidates(cache, owner())} == {"mine"}


def by_expression(name: str, *expressions: LabelSelectorRequirement) -> ReplicaSet:
    made = owner(name)
    made.spec.selector = LabelSelector(matchExpressions=list(expressions))
    return made


def test_a_selector_that_makes_no_sense_selects_nothing() -> None:
    bad = LabelSelector(matchExpressions=[LabelSelectorRequirement(key="a", operator="Near")])
    assert selector_or_nothing(bad).is_nothing
    assert selector_or_nothing(None).is_nothing
    assert selector_or_nothing(LabelSelector(matchLabels={"a": "b"})).matches({"a": "b"})


def test_an_object_concerns_its_owner_or_those_that_select_it() -> None:
    has_app = by_expression("has-app", LabelSelectorRequirement(key="app", operator="Exists"))
    no_tier = by_expression("no-tier", LabelSelectorRequirement(key="tier", operator="DoesNotExist"))
    far = owner("far")
    far.metadata.namespace = "other"
    all_owners = cache_of(owner("web"), has_app, no_tier, far, by_expression("everything"))
    index: OwnerIndex[ReplicaSet] = OwnerIndex(
        owners=all_owners, kind="ReplicaSet", selector=lambda found: selector_of(found.spec.selector)
    )
    assert index.keys(pod("a", owned_by="x")) == (Key("default", "web"),)
    foreign = pod("a", owned_by="x")
    foreign.metadata.ownerReferences[0].kind = "Job"
    assert index.keys(foreign) == ()
    assert {key.name for key in index.keys(pod("a"))} == {"web", "has-app", "no-tier"}
    assert {key.name for key in index.keys(pod("a", labels={"app": "x", "tier": "y"}))} == {"has-app"}
    assert list(index.keys(pod("a", labels={}))) == []
