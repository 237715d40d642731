"""Which objects an owner keeps, adopts and releases."""

from typing import Any

import pytest

from sampan.api.selectors.label_selector import selector_of
from sampan.api.selectors.labels import from_labels
from sampan.api.semantics.owners import controller_of
from sampan.api.types.apps_v1 import ReplicaSet
from sampan.api.types.core_v1 import Pod
from sampan.api.types.meta_v1 import LabelSelector, LabelSelectorRequirement
from sampan.controllers.ownership import ClaimControl, claim
from sampan.controllers.ownership.adoption import ClaimAction, OwnerIndex, candidates, claim_action, selector_or_nothing
from sampan.machinery import errors
from sampan.machinery.client import Client
from sampan.machinery.client.options import Delete
from sampan.machinery.copies import copy_of
from sampan.machinery.informer.informer import ObjectCache
from sampan.machinery.object_key import NamespacedName, key_of
from tests.controllers.ownership.objects import LABELS, owner, pod
from tests.controllers.ownership.pod_cluster import pod_cluster


def cache_of(*objects: Any) -> ObjectCache[Any]:
    cache: ObjectCache[Any] = ObjectCache()
    for obj in objects:
        cache.put(key_of(obj), obj)
    return cache


def test_an_owner_looks_at_its_own_and_at_orphans_of_its_namespace() -> None:
    cache: ObjectCache[Pod] = cache_of(
        pod("mine", owned_by="owner-uid"), pod("theirs", owned_by="x"), pod("orphan"), pod("far", namespace="other")
    )
    assert {item.metadata.name for item in candidates(cache, owner())} == {"mine", "orphan"}
    cache.remove(NamespacedName("default", "orphan"))
    assert {item.metadata.name for item in candidates(cache, owner())} == {"mine"}


def by_expression(name: str, *expressions: LabelSelectorRequirement) -> ReplicaSet:
    replica_set = owner(name)
    replica_set.spec.selector = LabelSelector(matchExpressions=list(expressions))
    return replica_set


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
        owners=all_owners, kind="ReplicaSet", selector=lambda item: selector_of(item.spec.selector)
    )
    assert index.keys(pod("a", owned_by="x")) == (NamespacedName("default", "web"),)
    foreign = pod("a", owned_by="x")
    foreign.metadata.ownerReferences[0].kind = "Job"
    assert index.keys(foreign) == ()
    assert {key.name for key in index.keys(pod("a"))} == {"web", "has-app", "no-tier"}
    assert {key.name for key in index.keys(pod("a", labels={"app": "x", "tier": "y"}))} == {"has-app"}
    assert list(index.keys(pod("a", labels={}))) == []


SELECTOR = from_labels(LABELS)


def control(client: Client) -> ClaimControl:
    return ClaimControl(owners=client.of(ReplicaSet), objects=client.of(Pod))


async def made_owner(client: Client, name: str = "web") -> ReplicaSet:
    new = owner(name, uid="")
    return await client.of(ReplicaSet).create(new)


async def made_pod(client: Client, name: str, **metadata: Any) -> Pod:
    return await client.of(Pod).create(pod(name, uid="", phase="", **metadata))


async def owner_of(client: Client, name: str) -> str:
    reference = controller_of(await client.of(Pod).get(name, "default"))
    return reference.uid if reference else ""


async def test_what_matches_is_kept_or_adopted_and_the_rest_released() -> None:
    async with pod_cluster() as c:
        client, pods = c.client, c.client.of(Pod)
        first, other = await made_owner(client), await made_owner(client, "other")
        kept = await made_pod(client, "kept", owned_by=first.metadata.uid)
        leaves = await made_pod(client, "leaves", owned_by=first.metadata.uid, labels={"app": "x"})
        orphan = await made_pod(client, "orphan")
        theirs = await made_pod(client, "theirs", owned_by=other.metadata.uid)
        stranger = await made_pod(client, "stranger", labels={"app": "x"})
        before = (await pods.get("kept", "default")).metadata.resourceVersion

        owned = await claim(first, SELECTOR, [kept, leaves, orphan, theirs, stranger], control(client))

        assert {item.metadata.name for item in owned} == {"kept", "orphan"}
        assert await owner_of(client, "orphan") == first.metadata.uid
        assert await owner_of(client, "leaves") == ""
        assert await owner_of(client, "theirs") == other.metadata.uid
        assert await owner_of(client, "stranger") == ""
        assert (await pods.get("kept", "default")).metadata.resourceVersion == before


async def test_a_reference_that_adoption_writes() -> None:
    async with pod_cluster() as c:
        first, orphan = await made_owner(c.client), await made_pod(c.client, "orphan")
        marks = ClaimControl(owners=c.client.of(ReplicaSet), objects=c.client.of(Pod), finalizers=("a.b/c",))
        await claim(first, SELECTOR, [orphan], marks)
        meta = (await c.client.of(Pod).get("orphan", "default")).metadata
        (reference,) = meta.ownerReferences
        assert (reference.apiVersion, reference.kind, reference.name) == ("apps/v1", "ReplicaSet", "web")
        assert (reference.controller, reference.blockOwnerDeletion) == (True, True)
        assert meta.finalizers == ["a.b/c"]
        relabelled = copy_of(await c.client.of(Pod).get("orphan", "default"))
        relabelled.metadata.labels = {"app": "x"}
        await claim(first, SELECTOR, [await c.client.of(Pod).update(relabelled)], marks)
        meta = (await c.client.of(Pod).get("orphan", "default")).metadata
        assert (meta.ownerReferences, meta.finalizers) == ([], [])


async def test_an_owner_made_anew_adopts_nothing_for_the_old_one() -> None:
    async with pod_cluster() as c:
        old = await made_owner(c.client)
        await c.client.of(ReplicaSet).delete("web", "default", options=Delete(propagation="Background"))
        await made_owner(c.client)
        orphan = await made_pod(c.client, "orphan")
        with pytest.raises(errors.Conflict, match=r"can't adopt Pod default/orphan .*: original ReplicaSet"):
            await claim(old, SELECTOR, [orphan], control(c.client))
        assert await owner_of(c.client, "orphan") == ""


async def test_an_owner_that_is_being_deleted_adopts_and_releases_nothing() -> None:
    async with pod_cluster() as c:
        sets = c.client.of(ReplicaSet)
        cached = await made_owner(c.client)
        held = copy_of(cached)
        held.metadata.finalizers = ["a.b/c"]
        await sets.update(held)
        await sets.delete("web", "default", options=Delete(propagation="Background"))
        orphan = await made_pod(c.client, "orphan")
        with pytest.raises(errors.Conflict, match="has just been deleted at"):
            await claim(cached, SELECTOR, [orphan], control(c.client))

        leaving = await sets.get("web", "default")
        kept = await made_pod(c.client, "kept", owned_by=leaving.metadata.uid)
        relabelled = await made_pod(c.client, "relabelled", owned_by=leaving.metadata.uid, labels={"app": "x"})
        owned = await claim(leaving, SELECTOR, [orphan, kept, relabelled], control(c.client))
        assert [item.metadata.name for item in owned] == ["kept"]
        assert await owner_of(c.client, "relabelled") == leaving.metadata.uid


async def test_what_is_gone_or_another_is_no_failure_to_let_go() -> None:
    async with pod_cluster() as c:
        first = await made_owner(c.client)
        mine, labels = first.metadata.uid, {"app": "x"}
        gone = await made_pod(c.client, "gone", owned_by=mine, labels=labels)
        gone_orphan = await made_pod(c.client, "gone-orphan")
        for name in ("gone", "gone-orphan"):
            await c.client.of(Pod).delete(name, "default", options=Delete(grace_period_s=0))
        freed = await made_pod(c.client, "freed", owned_by=mine, labels=labels)
        await claim(first, SELECTOR, [freed], control(c.client))
        assert await claim(first, SELECTOR, [gone, gone_orphan, freed], control(c.client)) == []


async def test_all_are_tried_before_a_failure_is_raised() -> None:
    async with pod_cluster() as c:
        first, other = await made_owner(c.client), await made_owner(c.client, "other")
        pod = await made_pod(c.client, "taken")
        await claim(other, SELECTOR, [pod], control(c.client))
        orphan = await made_pod(c.client, "orphan")
        with pytest.raises(errors.Invalid):
            await claim(first, SELECTOR, [pod, orphan], control(c.client))
        assert await owner_of(c.client, "taken") == other.metadata.uid
        assert await owner_of(c.client, "orphan") == first.metadata.uid


LEAVING: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("whose", "obj", "is_match", "expected"),
    [
        (owner(), pod("a", owned_by="owner-uid"), True, ClaimAction.KEEP),
        (owner(), pod("a", owned_by="owner-uid", **LEAVING), True, ClaimAction.KEEP),
        (owner(), pod("a", owned_by="owner-uid"), False, ClaimAction.RELEASE),
        (owner(), pod("a", owned_by="another"), True, ClaimAction.LEAVE),
        (owner(), pod("a"), True, ClaimAction.ADOPT),
        (owner(), pod("a"), False, ClaimAction.LEAVE),
        (owner(), pod("a", **LEAVING), True, ClaimAction.LEAVE),
        (owner(**LEAVING), pod("a", owned_by="owner-uid"), True, ClaimAction.KEEP),
        (owner(**LEAVING), pod("a", owned_by="owner-uid"), False, ClaimAction.LEAVE),
        (owner(**LEAVING), pod("a"), True, ClaimAction.LEAVE),
    ],
)
def test_what_is_done_with_an_object(whose: ReplicaSet, obj: Pod, is_match: bool, expected: ClaimAction) -> None:
    assert claim_action(whose, obj, is_match) is expected
