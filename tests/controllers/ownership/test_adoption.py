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
from sampan.machinery.client.options import DeleteParameters
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


def test_candidates_are_owned_objects_and_orphans_of_the_namespace() -> None:
    cache: ObjectCache[Pod] = cache_of(
        pod("owned", owned_by="owner-uid"),
        pod("other-owned", owned_by="x"),
        pod("orphan"),
        pod("far", namespace="other"),
    )
    assert {item.metadata.name for item in candidates(cache, owner())} == {"owned", "orphan"}
    cache.remove(NamespacedName("default", "orphan"))
    assert {item.metadata.name for item in candidates(cache, owner())} == {"owned"}


def owner_with_expressions(name: str, *expressions: LabelSelectorRequirement) -> ReplicaSet:
    replica_set = owner(name)
    replica_set.spec.selector = LabelSelector(matchExpressions=list(expressions))
    return replica_set


def test_invalid_selector_selects_nothing() -> None:
    bad = LabelSelector(matchExpressions=[LabelSelectorRequirement(key="a", operator="Near")])
    assert selector_or_nothing(bad).is_nothing
    assert selector_or_nothing(None).is_nothing
    assert selector_or_nothing(LabelSelector(matchLabels={"a": "b"})).matches({"a": "b"})


def test_owner_index_finds_the_controller_or_matching_selectors() -> None:
    has_app = owner_with_expressions("has-app", LabelSelectorRequirement(key="app", operator="Exists"))
    no_tier = owner_with_expressions("no-tier", LabelSelectorRequirement(key="tier", operator="DoesNotExist"))
    far = owner("far")
    far.metadata.namespace = "other"
    all_owners = cache_of(owner("web"), has_app, no_tier, far, owner_with_expressions("everything"))
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
    return ClaimControl(owners=client.for_kind(ReplicaSet), objects=client.for_kind(Pod))


async def create_owner(client: Client, name: str = "web") -> ReplicaSet:
    new = owner(name, uid="")
    return await client.for_kind(ReplicaSet).create(new)


async def create_pod(client: Client, name: str, **metadata: Any) -> Pod:
    return await client.for_kind(Pod).create(pod(name, uid="", phase="", **metadata))


async def owner_of(client: Client, name: str) -> str:
    reference = controller_of(await client.for_kind(Pod).get(name, "default"))
    return reference.uid if reference else ""


async def test_matching_pods_are_kept_or_adopted_and_unmatched_pods_released() -> None:
    async with pod_cluster() as c:
        client, pods = c.client, c.client.for_kind(Pod)
        first, other = await create_owner(client), await create_owner(client, "other")
        kept = await create_pod(client, "kept", owned_by=first.metadata.uid)
        released = await create_pod(client, "released", owned_by=first.metadata.uid, labels={"app": "x"})
        orphan = await create_pod(client, "orphan")
        other_owned = await create_pod(client, "other-owned", owned_by=other.metadata.uid)
        unmatched = await create_pod(client, "unmatched", labels={"app": "x"})
        before = (await pods.get("kept", "default")).metadata.resourceVersion

        owned = await claim(first, SELECTOR, [kept, released, orphan, other_owned, unmatched], control(client))

        assert {item.metadata.name for item in owned} == {"kept", "orphan"}
        assert await owner_of(client, "orphan") == first.metadata.uid
        assert await owner_of(client, "released") == ""
        assert await owner_of(client, "other-owned") == other.metadata.uid
        assert await owner_of(client, "unmatched") == ""
        assert (await pods.get("kept", "default")).metadata.resourceVersion == before


async def test_adoption_adds_owner_reference_and_finalizer_that_release_removes() -> None:
    async with pod_cluster() as c:
        first, orphan = await create_owner(c.client), await create_pod(c.client, "orphan")
        control_with_finalizer = ClaimControl(
            owners=c.client.for_kind(ReplicaSet), objects=c.client.for_kind(Pod), finalizers=("a.b/c",)
        )
        await claim(first, SELECTOR, [orphan], control_with_finalizer)
        meta = (await c.client.for_kind(Pod).get("orphan", "default")).metadata
        (reference,) = meta.ownerReferences
        assert (reference.apiVersion, reference.kind, reference.name) == ("apps/v1", "ReplicaSet", "web")
        assert (reference.controller, reference.blockOwnerDeletion) == (True, True)
        assert meta.finalizers == ["a.b/c"]
        relabelled = copy_of(await c.client.for_kind(Pod).get("orphan", "default"))
        relabelled.metadata.labels = {"app": "x"}
        await claim(first, SELECTOR, [await c.client.for_kind(Pod).update(relabelled)], control_with_finalizer)
        meta = (await c.client.for_kind(Pod).get("orphan", "default")).metadata
        assert (meta.ownerReferences, meta.finalizers) == ([], [])


async def test_owner_that_was_recreated_adopts_nothing_with_its_old_uid() -> None:
    async with pod_cluster() as c:
        old = await create_owner(c.client)
        await c.client.for_kind(ReplicaSet).delete("web", "default", options=DeleteParameters(propagation="Background"))
        await create_owner(c.client)
        orphan = await create_pod(c.client, "orphan")
        with pytest.raises(errors.Conflict, match=r"can't adopt Pod default/orphan .*: original ReplicaSet"):
            await claim(old, SELECTOR, [orphan], control(c.client))
        assert await owner_of(c.client, "orphan") == ""


async def test_an_owner_that_is_being_deleted_adopts_and_releases_nothing() -> None:
    async with pod_cluster() as c:
        sets = c.client.for_kind(ReplicaSet)
        cached = await create_owner(c.client)
        held = copy_of(cached)
        held.metadata.finalizers = ["a.b/c"]
        await sets.update(held)
        await sets.delete("web", "default", options=DeleteParameters(propagation="Background"))
        orphan = await create_pod(c.client, "orphan")
        with pytest.raises(errors.Conflict, match="has just been deleted at"):
            await claim(cached, SELECTOR, [orphan], control(c.client))

        deleted = await sets.get("web", "default")
        kept = await create_pod(c.client, "kept", owned_by=deleted.metadata.uid)
        relabelled = await create_pod(c.client, "relabelled", owned_by=deleted.metadata.uid, labels={"app": "x"})
        owned = await claim(deleted, SELECTOR, [orphan, kept, relabelled], control(c.client))
        assert [item.metadata.name for item in owned] == ["kept"]
        assert await owner_of(c.client, "relabelled") == deleted.metadata.uid


async def test_claim_ignores_pods_that_are_deleted_or_already_released() -> None:
    async with pod_cluster() as c:
        first = await create_owner(c.client)
        uid, labels = first.metadata.uid, {"app": "x"}
        gone = await create_pod(c.client, "gone", owned_by=uid, labels=labels)
        gone_orphan = await create_pod(c.client, "gone-orphan")
        for name in ("gone", "gone-orphan"):
            await c.client.for_kind(Pod).delete(name, "default", options=DeleteParameters(grace_period_s=0))
        freed = await create_pod(c.client, "freed", owned_by=uid, labels=labels)
        await claim(first, SELECTOR, [freed], control(c.client))
        assert await claim(first, SELECTOR, [gone, gone_orphan, freed], control(c.client)) == []


async def test_claim_tries_all_pods_before_it_raises() -> None:
    async with pod_cluster() as c:
        first, other = await create_owner(c.client), await create_owner(c.client, "other")
        pod = await create_pod(c.client, "taken")
        await claim(other, SELECTOR, [pod], control(c.client))
        orphan = await create_pod(c.client, "orphan")
        with pytest.raises(errors.Invalid):
            await claim(first, SELECTOR, [pod, orphan], control(c.client))
        assert await owner_of(c.client, "taken") == other.metadata.uid
        assert await owner_of(c.client, "orphan") == first.metadata.uid


DELETED: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("owner_", "obj", "is_match", "expected"),
    [
        (owner(), pod("a", owned_by="owner-uid"), True, ClaimAction.KEEP),
        (owner(), pod("a", owned_by="owner-uid", **DELETED), True, ClaimAction.KEEP),
        (owner(), pod("a", owned_by="owner-uid"), False, ClaimAction.RELEASE),
        (owner(), pod("a", owned_by="another"), True, ClaimAction.LEAVE),
        (owner(), pod("a"), True, ClaimAction.ADOPT),
        (owner(), pod("a"), False, ClaimAction.LEAVE),
        (owner(), pod("a", **DELETED), True, ClaimAction.LEAVE),
        (owner(**DELETED), pod("a", owned_by="owner-uid"), True, ClaimAction.KEEP),
        (owner(**DELETED), pod("a", owned_by="owner-uid"), False, ClaimAction.LEAVE),
        (owner(**DELETED), pod("a"), True, ClaimAction.LEAVE),
    ],
)
def test_claim_action_by_owner_and_selector(
    owner_: ReplicaSet, obj: Pod, is_match: bool, expected: ClaimAction
) -> None:
    assert claim_action(owner_, obj, is_match) is expected
