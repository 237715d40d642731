"""Registration, leases and status updates of nodes on the virtual clock."""

import itertools
from collections import Counter

from sampan.api.kubernetes_version import GIT_VERSION
from sampan.api.types.coordination_v1 import Lease
from sampan.api.types.core_v1 import Event, Node
from sampan.api.values import times
from sampan.kubelet.config import KubeletConfig
from sampan.kubelet.hollow_nodes import RUNTIME, free_names
from sampan.machinery.client import Selection
from sampan.machinery.informer import InformerFactory
from tests.controllers.cluster import Cluster, cluster

LEASES = "kube-node-lease"


async def lease(c: Cluster, name: str = "node-0") -> Lease:
    return await c.client.for_kind(Lease).get(name, LEASES)


async def test_registered_node_has_labels_conditions_and_addresses() -> None:
    async with cluster() as c, c.nodes("node-0"):
        node = await c.client.for_kind(Node).get("node-0")
        labels = node.metadata.labels
        assert labels["kubernetes.io/hostname"] == "node-0"
        assert labels["kubernetes.io/os"] == labels["beta.kubernetes.io/os"] == "linux"
        assert labels["kubernetes.io/arch"] == labels["beta.kubernetes.io/arch"]
        assert node.metadata.annotations[RUNTIME] == "hollow"
        status = node.status
        assert [
            (condition.type, condition.status, condition.reason, condition.message) for condition in status.conditions
        ] == [
            (
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ]
        assert {address.type for address in status.addresses} == {"InternalIP", "Hostname"}
        assert status.nodeInfo.kubeletVersion == GIT_VERSION
        assert status.daemonEndpoints.kubeletEndpoint.Port == 10250


async def test_the_lease_is_renewed_every_ten_seconds() -> None:
    async with cluster() as c, c.nodes("node-0"):
        first = await lease(c)
        owner = first.metadata.ownerReferences[0]
        node = await c.client.for_kind(Node).get("node-0")
        assert (owner.kind, owner.name, owner.uid) == ("Node", "node-0", node.metadata.uid)
        assert (first.spec.holderIdentity, first.spec.leaseDurationSeconds) == ("node-0", 40)
        renewals = []
        for _ in range(6):
            await c.clock.advance(10)
            renewed = (await lease(c)).spec.renewTime
            assert renewed is not None
            renewals.append(times.parse_time(renewed))
        assert [after - before for before, after in itertools.pairwise(renewals)] == [10] * 5


async def test_deleted_or_changed_lease_is_renewed() -> None:
    async with cluster() as c, c.nodes("node-0"):
        await c.client.for_kind(Lease).delete("node-0", LEASES)
        await c.clock.advance(10)
        assert (await lease(c)).spec.holderIdentity == "node-0"
        await c.client.for_kind(Lease).patch("node-0", {"metadata": {"labels": {"a": "b"}}}, LEASES)
        await c.clock.advance(10)
        new_lease = await lease(c)
        assert new_lease.metadata.labels == {"a": "b"}
        assert new_lease.spec.renewTime is not None
        assert c.clock.now() - times.parse_time(new_lease.spec.renewTime) < 10


async def test_status_is_written_every_five_minutes_or_after_a_foreign_change() -> None:
    async with cluster() as c, c.nodes("node-0"):
        nodes = c.client.for_kind(Node)
        version = (await nodes.get("node-0")).metadata.resourceVersion
        await c.clock.advance(290)
        assert (await nodes.get("node-0")).metadata.resourceVersion == version
        await c.clock.advance(20)
        reported = await nodes.get("node-0")
        assert reported.metadata.resourceVersion != version
        assert reported.status.conditions[-1].lastTransitionTime == "2026-01-01T00:00:00Z"
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        await nodes.patch("node-0", {"status": {"conditions": [unknown]}}, subresource="status")
        await c.clock.advance(10)
        ready = (await nodes.get("node-0")).status.conditions[-1]
        assert (ready.status, ready.reason) == ("True", "KubeletReady")
        events = (await c.client.for_kind(Event).list()).items
        assert "Node node-0 status is now: NodeReady" in [event.message for event in events]


async def test_heartbeats_are_spread_over_their_period() -> None:
    async with cluster() as c:
        names, beats = [f"node-{number}" for number in range(100)], Counter[float]()
        quiet = KubeletConfig(has_events=False)
        async with c.nodes(*names, config=quiet):
            informers = InformerFactory(client=c.client)
            leases = informers.for_kind(Lease, Selection(namespace=LEASES))
            async with informers:
                await informers.wait_synced()
                await c.clock.advance(10)
                leases.subscribe(lambda old, new: beats.update([c.clock.now()] if old is not None else []))
                await c.clock.advance(10)
        assert sum(beats.values()) == 100
        assert len(beats) == 50
        assert max(beats.values()) == 2


def test_free_node_names() -> None:
    assert free_names([], 2) == ["node-0", "node-1"]
    assert free_names(["node-0", "node-7", "big", "node-x"], 2) == ["node-8", "node-9"]
