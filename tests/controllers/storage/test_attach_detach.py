"""persistentvolume-attach-detach-controller: its decisions, and against a whole API server."""

from typing import Any

import pytest

from sampan.api.types.core_v1 import (
    CSIPersistentVolumeSource,
    Event,
    Node,
    NodeCondition,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ServiceAccount,
    Taint,
)
from sampan.api.types.meta_v1 import ObjectMeta
from sampan.api.types.storage_v1 import CSIDriver, CSIDriverSpec, VolumeAttachment
from sampan.controllers.storage import attachments
from sampan.controllers.storage.attach_detach import AttachDetachController
from sampan.controllers.storage.attachments import DesiredAttachment
from sampan.machinery.client import DeleteParameters
from tests.controllers.cluster import Cluster, check_second_run_writes_nothing, cluster
from tests.controllers.storage.builders import claim, pod_using, volume

NAME, BINDER = AttachDetachController.name, "persistentvolume-binder-controller"
UNIQUE = "kubernetes.io/csi/csi.example.com^h"
AT_ONCE = DeleteParameters(grace_period_s=0)


def csi_volume(name: str = "v", **spec: Any) -> PersistentVolume:
    volume_ = volume(name, **spec)
    volume_.spec.hostPath = None
    volume_.spec.csi = CSIPersistentVolumeSource(driver="csi.example.com", volumeHandle="h")
    return volume_


def node(name: str = "node", *, in_use: bool = False, is_ready: bool = True, taint: str = "") -> Node:
    node_ = Node(metadata=ObjectMeta(name=name, annotations={attachments.MANAGED: "true"}))
    node_.status.conditions = [NodeCondition(type="Ready", status="True" if is_ready else "Unknown")]
    node_.status.volumesInUse = [UNIQUE] if in_use else []
    node_.spec.taints = [Taint(key=taint, effect="NoExecute")] if taint else []
    return node_


def volume_attachment(name: str = "node") -> VolumeAttachment:
    attachment = attachments.attachment(csi_volume(), name)
    attachment.status.attached = True
    return attachment


@pytest.mark.parametrize(
    ("node_", "waited_s", "expected"),
    [
        (node(), 0.0, True),
        (node(in_use=True), 9999.0, False),
        (node(in_use=True, is_ready=False), 359.0, False),
        (node(in_use=True, is_ready=False), 360.0, True),
        (node(in_use=True, taint="node.kubernetes.io/out-of-service"), 0.0, True),
    ],
)
def test_volume_may_be_detached_by_node_state_and_wait(node_: Node, waited_s: float, expected: bool) -> None:
    assert attachments.may_detach(node_, UNIQUE, waited_s) is expected


def test_attach_and_detach_plan() -> None:
    want = DesiredAttachment(csi_volume())
    assert attachments.plan(node(), {UNIQUE: want}, {}, {}).attach == [want]
    held = DesiredAttachment(csi_volume(), elsewhere=["other"])
    planned = attachments.plan(node(), {UNIQUE: held}, {}, {})
    assert (planned.attach, planned.blocked, planned.again_s) == ([], [held], 1.0)
    shared = DesiredAttachment(csi_volume(accessModes=["ReadWriteMany"]), elsewhere=["other"])
    assert attachments.plan(node(), {UNIQUE: shared}, {}, {}).attach == [shared]
    kept = attachments.plan(node(), {UNIQUE: want}, {UNIQUE: volume_attachment()}, {})
    assert [attached_volume.name for attached_volume in kept.report] == [UNIQUE]
    gone = attachments.plan(node(), {}, {UNIQUE: volume_attachment()}, {})
    assert (len(gone.detach), gone.report) == (1, [])
    mounted = attachments.plan(node(in_use=True), {}, {UNIQUE: volume_attachment()}, {UNIQUE: 60.0})
    assert (mounted.detach, mounted.again_s) == ([], 300.0)
    assert [attached_volume.name for attached_volume in mounted.report] == [UNIQUE]
    assert len(attachments.plan(None, {}, {UNIQUE: volume_attachment()}, {}).detach) == 1


def test_multi_attach_error_messages() -> None:
    want, pod = DesiredAttachment(csi_volume()), pod_using("c")
    start = 'Multi-Attach error for volume "v" Volume is already '
    near, far = pod_using("c", "near"), pod_using("c", "far", namespace="n")
    assert attachments.multi_attach_message(want, pod, []) == (
        f"{start}exclusively attached to one node and can't be attached to another"
    )
    assert attachments.multi_attach_message(want, pod, [near]) == f"{start}used by pod(s) near"
    assert attachments.multi_attach_message(want, pod, [far]) == f"{start}used by 1 pod(s) in different namespaces"
    both = f"{start}used by pod(s) near and 1 pod(s) in different namespaces"
    assert attachments.multi_attach_message(want, pod, [near, far]) == both


async def prepare(c: Cluster) -> None:
    await c.client.for_kind(ServiceAccount).create(
        ServiceAccount(metadata=ObjectMeta(name="default", namespace="default"))
    )
    for name in ("node", "other"):
        await c.client.for_kind(Node).create(node(name))
    await c.client.for_kind(PersistentVolume).create(csi_volume())
    await c.client.for_kind(PersistentVolumeClaim).create(claim())


async def attachments_of(c: Cluster) -> list[VolumeAttachment]:
    return list((await c.client.for_kind(VolumeAttachment).list()).items)


async def events(c: Cluster) -> set[tuple[str, str, str]]:
    return {
        (event.involvedObject.name, event.reason, event.message)
        for event in (await c.client.for_kind(Event).list()).items
    }


async def test_a_volume_is_attached_reported_and_detached() -> None:
    async with cluster() as c:
        await prepare(c)
        pods, nodes, volume_attachments = (
            c.client.for_kind(Pod),
            c.client.for_kind(Node),
            c.client.for_kind(VolumeAttachment),
        )
        async with c.running(NAME, BINDER):
            await pods.create(pod_using("c"))
            await c.clock.settle()
            (attachment,) = await attachments_of(c)
            assert (attachment.spec.attacher, attachment.spec.nodeName) == ("csi.example.com", "node")
            assert attachment.spec.source.persistentVolumeName == "v"
            assert attachment.metadata.name.startswith("csi-")
            assert (await nodes.get("node")).status.volumesAttached == []
            await volume_attachments.patch(
                attachment.metadata.name, {"status": {"attached": True}}, subresource="status"
            )
            await c.clock.settle()
            (attached_volume,) = (await nodes.get("node")).status.volumesAttached
            assert attached_volume.name == UNIQUE
            text = 'AttachVolume.Attach succeeded for volume "v" '
            assert ("p", "SuccessfulAttachVolume", text) in await events(c)
            await nodes.patch("node", {"status": {"volumesInUse": [UNIQUE]}}, subresource="status")
            await pods.create(pod_using("c", "late", node="other"))
            await c.clock.settle()
            text = 'Multi-Attach error for volume "v" Volume is already used by pod(s) p'
            assert ("late", "FailedAttachVolume", text) in await events(c)
            await pods.delete("p", "default", options=AT_ONCE)
            await c.clock.advance(5)
            assert len(await attachments_of(c)) == 1
            await nodes.patch("node", {"status": {"volumesInUse": None}}, subresource="status")
            await c.clock.advance(5)
            (attachment,) = await attachments_of(c)
            assert attachment.spec.nodeName == "other"
            assert (await nodes.get("node")).status.volumesAttached == []
        await check_second_run_writes_nothing(c, NAME)


async def test_driver_without_attach_required_gets_no_attachment() -> None:
    async with cluster() as c:
        await prepare(c)
        spec = CSIDriverSpec(attachRequired=False)
        await c.client.for_kind(CSIDriver).create(CSIDriver(metadata=ObjectMeta(name="csi.example.com"), spec=spec))
        async with c.running(NAME, BINDER):
            await c.client.for_kind(Pod).create(pod_using("c"))
            await c.clock.settle()
            assert await attachments_of(c) == []


async def test_each_attach_failure_is_reported_as_one_event() -> None:
    async with cluster() as c:
        await prepare(c)

        async def fail(message: str, time: str) -> None:
            (attachment,) = await attachments_of(c)
            error = {"status": {"attached": False, "attachError": {"message": message, "time": time}}}
            await c.client.for_kind(VolumeAttachment).patch(attachment.metadata.name, error, subresource="status")
            await c.clock.advance(5)

        async def failures() -> list[tuple[str, str, int]]:
            reported = [event for event in (await c.client.for_kind(Event).list()).items if event.type == "Warning"]
            assert {event.reason for event in reported} == {"FailedAttachVolume"}
            return sorted((event.involvedObject.name, event.message, event.count) for event in reported)

        async with c.running(NAME, BINDER):
            await c.client.for_kind(Pod).create(pod_using("c"))
            await c.clock.settle()
            no_luck, no_disk = (
                f'AttachVolume.Attach failed for volume "v" : {text}' for text in ("no luck", "no disk")
            )
            await fail("no luck", "2026-01-01T00:00:00Z")
            assert await failures() == [("p", no_luck, 1)]
            await fail("no luck", "2026-01-01T00:00:01Z")
            assert await failures() == [("p", no_luck, 1)], "the driver failed again with the same error"
            await fail("no disk", "2026-01-01T00:00:02Z")
            assert await failures() == [("p", no_disk, 1), ("p", no_luck, 1)]
