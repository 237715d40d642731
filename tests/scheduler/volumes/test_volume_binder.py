"""Pods with volumes from their claim to running, with the binder, the embedded provisioner and hollow nodes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sampan.api.codec import json
from sampan.api.types.core_v1 import (
    Container,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSpec,
    ServiceAccount,
    Volume,
    VolumeResourceRequirements,
)
from sampan.api.types.events_v1 import Event
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import StorageClass
from sampan.scheduler.config import ProfileConfig, SchedulerConfig
from tests.controllers.cluster import Cluster, cluster
from tests.scheduler.running_scheduler import RunningScheduler, running_scheduler

SELECTED = "volume.kubernetes.io/selected-node"


def storage_class(name: str, provisioner: str) -> StorageClass:
    meta = ObjectMeta(name=name)
    return StorageClass(metadata=meta, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer")


def claim(name: str, class_name: str, size: str = "1Gi") -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PersistentVolumeClaimSpec(
            storageClassName=class_name,
            accessModes=["ReadWriteOnce"],
            resources=VolumeResourceRequirements(requests={"storage": size}),
        ),
    )


def pod(name: str, *claims: str, node: str = "") -> Pod:
    volumes = [
        Volume(name=claim_name, persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=claim_name))
        for claim_name in claims
    ]
    selector = {"kubernetes.io/hostname": node} if node else {}
    spec = PodSpec(containers=[Container(name="main", image="pause")], volumes=volumes, nodeSelector=selector)
    return Pod(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


@asynccontextmanager
async def volume_cluster(*nodes: str) -> AsyncIterator[Cluster]:
    """A cluster with scheduler, volume binder and hollow nodes."""
    async with (
        cluster() as cluster_,
        cluster_.running("persistentvolume-binder-controller", "node-lifecycle-controller"),
        cluster_.nodes(*nodes),
        cluster_.running_scheduler(),
    ):
        account = ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
        await cluster_.client.for_kind(ServiceAccount).create(account)
        await cluster_.clock.settle()
        yield cluster_


async def test_volume_is_provisioned_on_the_node_of_its_first_consumer() -> None:
    async with volume_cluster("a", "b", "c") as cluster:
        client = cluster.client
        await client.for_kind(StorageClass).create(storage_class("local", "sampan.local/path"))
        await client.for_kind(PersistentVolumeClaim).create(claim("data", "local"))
        await cluster.clock.settle()
        assert (await client.for_kind(PersistentVolumeClaim).get("data", "default")).status.phase == "Pending"
        await client.for_kind(Pod).create(pod("p", "data", node="b"))
        await cluster.clock.advance(5)
        pod_ = await client.for_kind(Pod).get("p", "default")
        assert (pod_.spec.nodeName, pod_.status.phase) == ("b", "Running")
        bound = await client.for_kind(PersistentVolumeClaim).get("data", "default")
        assert (bound.status.phase, bound.metadata.annotations[SELECTED]) == ("Bound", "b")
        volume = await client.for_kind(PersistentVolume).get(bound.spec.volumeName)
        assert volume.spec.nodeAffinity is not None
        required = volume.spec.nodeAffinity.required
        assert required is not None
        assert required.nodeSelectorTerms
        assert required.nodeSelectorTerms[0].matchExpressions[0].values == ["b"]
        # a second pod must run where the volume is
        await client.for_kind(Pod).create(pod("q", "data"))
        await cluster.clock.advance(5)
        assert (await client.for_kind(Pod).get("q", "default")).spec.nodeName == "b"
        await client.for_kind(Pod).create(pod("r", "data", node="c"))
        await cluster.clock.advance(5)
        notes = [event.note for event in (await client.for_kind(Event).list()).items if event.regarding.name == "r"]
        conflict = "1 node(s) didn't match PersistentVolume's node affinity"
        assert any(conflict in note for note in notes), notes


def static(name: str, node: str, size: str) -> PersistentVolume:
    requirement = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    value = {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "disks",
            "local": {"path": f"/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}},
        },
    }
    return json.read(json.encode(value), PersistentVolume)


async def test_local_volumes_are_bound_on_their_node() -> None:
    async with volume_cluster("a", "b") as cluster:
        client = cluster.client
        await client.for_kind(StorageClass).create(storage_class("disks", "kubernetes.io/no-provisioner"))
        for name, node, size in (("small-a", "a", "1Gi"), ("large-a", "a", "9Gi"), ("small-b", "b", "1Gi")):
            await client.for_kind(PersistentVolume).create(static(name, node, size))
        for name, size in (("one", "1Gi"), ("two", "2Gi"), ("three", "1Gi")):
            await client.for_kind(PersistentVolumeClaim).create(claim(name, "disks", size))
        await client.for_kind(Pod).create(pod("p", "one", "two"))
        await cluster.clock.advance(5)
        await client.for_kind(Pod).create(pod("q", "three"))
        await cluster.clock.advance(5)
        node_names = {pod_.metadata.name: pod_.spec.nodeName for pod_ in (await client.for_kind(Pod).list()).items}
        assert node_names == {"p": "a", "q": "b"}
        claims = {
            pod_.metadata.name: pod_.spec.volumeName
            for pod_ in (await client.for_kind(PersistentVolumeClaim).list()).items
        }
        assert claims == {"one": "small-a", "two": "large-a", "three": "small-b"}
        await client.for_kind(PersistentVolumeClaim).create(claim("four", "disks"))
        await client.for_kind(Pod).create(pod("r", "four"))
        await cluster.clock.advance(5)
        notes = [event.note for event in (await client.for_kind(Event).list()).items if event.regarding.name == "r"]
        message = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
        assert any(note.startswith(message) for note in notes), notes
        await client.for_kind(PersistentVolume).create(static("more-b", "b", "1Gi"))
        await cluster.clock.advance(20)
        assert (await client.for_kind(Pod).get("r", "default")).spec.nodeName == "b"


async def _create_claims(waiting: RunningScheduler) -> None:
    await waiting.node("a")
    client = waiting.cluster.client
    await client.for_kind(StorageClass).create(storage_class("far", "example.com/never"))
    await client.for_kind(PersistentVolumeClaim).create(claim("data", "far"))
    await client.for_kind(Pod).create(pod("p", "data"))
    await waiting.settle()


async def test_pod_is_rescheduled_when_its_volume_is_not_provisioned_in_time() -> None:
    """After the bind timeout the pod is queued again, and may be placed on another node."""
    args = {"VolumeBinding": {"bindTimeoutSeconds": 30}}
    config = SchedulerConfig(profiles=(ProfileConfig(args=args),))
    async with running_scheduler(config) as waiting:
        await _create_claims(waiting)
        client = waiting.cluster.client
        claim = await client.for_kind(PersistentVolumeClaim).get("data", "default")
        assert claim.metadata.annotations[SELECTED] == "a"
        row = waiting.scheduler.table.rows["a"]
        assert waiting.scheduler.table.pods[row], "the resources of the node stay reserved"
        await waiting.cluster.clock.advance(31)
        notes = [event.note for event in await waiting.events("FailedScheduling")]
        assert any("binding volumes: context deadline exceeded" in note for note in notes), notes
        # the provisioner gives up, and the scheduler may choose another node
        await waiting.node("b")
        await client.for_kind(Node).patch("a", {"spec": {"unschedulable": True}})
        await client.for_kind(PersistentVolumeClaim).patch(
            "data", {"metadata": {"annotations": {SELECTED: None}}}, "default"
        )
        await waiting.cluster.clock.advance(60)
        claim = await client.for_kind(PersistentVolumeClaim).get("data", "default")
        assert claim.metadata.annotations[SELECTED] == "b"
