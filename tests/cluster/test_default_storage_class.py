"""The default storage class that is created when a cluster with nodes starts."""

import asyncio

import pytest

from sampan.api.codec import json
from sampan.api.types.core_v1 import PersistentVolumeClaim, Pod
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import StorageClass
from sampan.cluster.default_storage_class import NAME, ensure_default_storage_class
from sampan.machinery import errors
from sampan.machinery.client import BOOKMARK
from sampan.testing import Cluster

META = {"name": "data", "namespace": "default"}


async def test_deleted_default_class_is_not_created_again() -> None:
    async with asyncio.timeout(60), Cluster(components=["apiserver"]) as cluster:
        classes = cluster.client.for_kind(StorageClass)
        await ensure_default_storage_class(cluster.client)
        storage_class = await classes.get(NAME)
        assert (storage_class.provisioner, storage_class.volumeBindingMode) == (
            "sampan.local/path",
            "WaitForFirstConsumer",
        )
        await ensure_default_storage_class(cluster.client)
        await classes.delete(NAME)
        await ensure_default_storage_class(cluster.client)
        with pytest.raises(errors.NotFound):
            await classes.get(NAME)


async def test_existing_class_is_not_changed() -> None:
    async with asyncio.timeout(60), Cluster(components=["apiserver"]) as cluster:
        classes = cluster.client.for_kind(StorageClass)
        await classes.create(StorageClass(metadata=ObjectMeta(name=NAME), provisioner="mine"))
        await ensure_default_storage_class(cluster.client)
        assert (await classes.get(NAME)).provisioner == "mine"


async def test_claim_is_bound_with_the_default_class() -> None:
    async with asyncio.timeout(60), Cluster(nodes=1) as cluster:
        resources = {"requests": {"storage": "1Gi"}}
        claim = {"metadata": META, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}}
        await cluster.client.for_kind(PersistentVolumeClaim).create(json.from_value(claim, PersistentVolumeClaim))
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        pod = {"metadata": META, "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}}
        await cluster.client.for_kind(Pod).create(json.from_value(pod, Pod))
        assert (await _wait_for_bound_claim(cluster)).spec.storageClassName == NAME


async def _wait_for_bound_claim(cluster: Cluster) -> PersistentVolumeClaim:
    """Wait until a claim is bound, and return it."""
    async with cluster.client.for_kind(PersistentVolumeClaim).watch(initial_events=True) as events:
        async for batch in events:
            for event in batch:
                if event.type != BOOKMARK and event.object.status.phase == "Bound":
                    claim: PersistentVolumeClaim = event.object
                    return claim
    raise AssertionError("the watch ended before a claim was bound")
