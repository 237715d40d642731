"""persistentvolume-attach-detach-controller, which attaches volumes to the nodes of the pods that use them.

The key is a node; `attachments` decides. Volumes that no pod on the node needs any more are detached.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from sampan.api.types.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from sampan.api.types.storage_v1 import CSIDriver, VolumeAttachment
from sampan.controllers.storage import attachments
from sampan.controllers.storage.attachments import AttachDetachPlan, DesiredAttachment
from sampan.host.clock import Clock
from sampan.machinery import errors
from sampan.machinery.client import Client, resource_of
from sampan.machinery.control_loop.controller import Watch
from sampan.machinery.copies import copy_of
from sampan.machinery.events import NORMAL, WARNING, EventRecorder
from sampan.machinery.informer import InformerFactory
from sampan.machinery.object_key import NamespacedName, key_of
from sampan.machinery.volumes import BOUND, by_claim, claim_names_of


def _by_node(pod: Pod) -> Iterable[Hashable]:
    """Return the node of a pod that uses claims; an index function."""
    if not pod.spec.nodeName or next(claim_names_of(pod), None) is None:
        return ()
    return (pod.spec.nodeName,)


def _attachments_by_node(volume_attachment: VolumeAttachment) -> Iterable[Hashable]:
    return (volume_attachment.spec.nodeName,)


def _attachments_by_volume(volume_attachment: VolumeAttachment) -> Iterable[Hashable]:
    return (
        (volume_attachment.spec.source.persistentVolumeName,)
        if volume_attachment.spec.source.persistentVolumeName
        else ()
    )


class AttachDetachController:
    name = "persistentvolume-attach-detach-controller"

    def __init__(self, *, client: Client, informers: InformerFactory, events: EventRecorder, clock: Clock) -> None:
        self._attachments, self._node_client = client.for_kind(VolumeAttachment), client.for_kind(Node)
        self._events, self._clock = events, clock
        self._pods, self._nodes = informers.for_kind(Pod).lister, informers.for_kind(Node).lister
        self._claims, self._volumes = (
            informers.for_kind(PersistentVolumeClaim).lister,
            informers.for_kind(PersistentVolume).lister,
        )
        self._drivers, self._known = informers.for_kind(CSIDriver).lister, informers.for_kind(VolumeAttachment).lister
        self._pods.add_index(_by_node)
        self._pods.add_index(by_claim)
        self._known.add_index(_attachments_by_node)
        self._known.add_index(_attachments_by_volume)
        self._unwanted: dict[str, dict[str, float]] = {}
        """Monotonic time since when an attached volume is no longer needed, by node and volume."""
        self._reported_errors: dict[str, dict[str, str]] = {}
        """The last attach error that was reported as an event, by node and volume."""
        self.watches = (
            Watch(resource_of(Pod), _by_node),
            Watch(resource_of(Node), self._affected_node_keys),
            Watch(resource_of(VolumeAttachment), _attachments_by_node),
            Watch(resource_of(PersistentVolumeClaim), self._nodes_of_claim),
            Watch(resource_of(PersistentVolume)),
            Watch(resource_of(CSIDriver)),
        )

    def _affected_node_keys(self, node: Node) -> Iterable[Hashable]:
        """Return the node if it has attachable volumes, so that heartbeats of other nodes cost nothing."""
        name = node.metadata.name
        concerned = node.status.volumesAttached or self._known.find(_attachments_by_node, name)
        return (name,) if concerned or self._pods.find(_by_node, name) else ()

    def _nodes_of_claim(self, claim: PersistentVolumeClaim) -> Iterable[Hashable]:
        return [pod.spec.nodeName for pod in self._pods.find(by_claim, key_of(claim)) if pod.spec.nodeName]

    async def reconcile(self, key: str) -> float | None:
        node = self._nodes.get(key)
        if node is not None and not attachments.is_managed(node):
            return None
        desired = self._desired_volumes(key) if node is not None else {}
        attached = self._find_attachments(key)
        plan = attachments.plan(node, desired, attached, self._update_unwanted_times(key, desired, attached))
        if node is not None:
            self._record_events(plan, node, desired, attached)
            await self._report(plan, node)
        for attachment in plan.detach:
            await self._detach(attachment)
        for request in plan.attach:
            await self._attach(request.volume, key)
        return plan.again_s

    # -- desired and actual state ------------------------------------------------------------------------------------

    def _desired_volumes(self, node: str) -> dict[str, DesiredAttachment]:
        desired: dict[str, DesiredAttachment] = {}
        for pod in self._pods.find(_by_node, node):
            for volume in self._volumes_of(pod) if attachments.needs_volumes(pod) else ():
                name = attachments.unique_name(volume)
                request = desired.setdefault(
                    name, DesiredAttachment(volume, elsewhere=self._list_other_nodes(volume, node))
                )
                request.pods.append(pod)
        return desired

    def _volumes_of(self, pod: Pod) -> Iterable[PersistentVolume]:
        for name in claim_names_of(pod):
            claim = self._claims.get(name, pod.metadata.namespace)
            if claim is None or claim.status.phase != BOUND:
                continue
            volume = self._volumes.get(claim.spec.volumeName)
            if (
                volume is not None
                and volume.spec.csi is not None
                and self._is_attached_by_driver(volume.spec.csi.driver)
            ):
                yield volume

    def _is_attached_by_driver(self, name: str) -> bool:
        driver = self._drivers.get(name)
        return driver is None or driver.spec.attachRequired is not False

    def _list_other_nodes(self, volume: PersistentVolume, node: str) -> list[str]:
        volume_attachments = self._known.find(_attachments_by_volume, volume.metadata.name)
        return [attachment.spec.nodeName for attachment in volume_attachments if attachment.spec.nodeName != node]

    def _find_attachments(self, node: str) -> dict[str, VolumeAttachment]:
        attached: dict[str, VolumeAttachment] = {}
        for attachment in self._known.find(_attachments_by_node, node):
            volume = self._volumes.get(attachment.spec.source.persistentVolumeName or "")
            if volume is not None and volume.spec.csi is not None:
                attached[attachments.unique_name(volume)] = attachment
        return attached

    def _update_unwanted_times(
        self, node: str, desired_volumes: Mapping[str, Any], attached: Mapping[str, Any]
    ) -> dict[str, float]:
        now, before = self._clock.monotonic(), self._unwanted.pop(node, {})
        since = {name: before.get(name, now) for name in attached if name not in desired_volumes}
        if since:
            self._unwanted[node] = since
        messages = {name: text for name, text in self._reported_errors.pop(node, {}).items() if name in desired_volumes}
        if messages:
            self._reported_errors[node] = messages
        return {name: now - started for name, started in since.items()}

    # -- attaching and detaching -------------------------------------------------------------------------------------

    async def _attach(self, volume: PersistentVolume, node: str) -> None:
        try:
            await self._attachments.create(attachments.attachment(volume, node))
        except errors.AlreadyExists:
            return

    async def _detach(self, volume_attachment: VolumeAttachment) -> None:
        if volume_attachment.metadata.deletionTimestamp is not None:
            return
        try:
            await self._attachments.delete(volume_attachment.metadata.name)
        except errors.NotFound:
            return

    async def _report(self, plan: AttachDetachPlan, node: Node) -> None:
        """Write volumesAttached to the node status, which must precede the detachment of a volume."""
        if plan.report == node.status.volumesAttached:
            return
        changed = copy_of(node)
        changed.status.volumesAttached = plan.report
        try:
            await self._node_client.update_status(changed)
        except errors.NotFound:
            return

    def _record_events(
        self,
        plan: AttachDetachPlan,
        node: Node,
        desired_volumes: Mapping[str, DesiredAttachment],
        attached: Mapping[str, VolumeAttachment],
    ) -> None:
        before = {volume.name for volume in node.status.volumesAttached}
        for volume in plan.report:
            if volume.name not in before and volume.name in desired_volumes:
                self._record_event(
                    desired_volumes[volume.name], NORMAL, "SuccessfulAttachVolume", "AttachVolume.Attach succeeded", ""
                )
        for name, attachment in attached.items():
            error = attachment.status.attachError
            if error is not None and name in desired_volumes and self._record_error(node, name, error.message):
                text = f": {error.message}"
                self._record_event(
                    desired_volumes[name], WARNING, "FailedAttachVolume", "AttachVolume.Attach failed", text
                )
        for request in plan.blocked:
            self._record_blocked(request, node)

    def _record_event(self, want: DesiredAttachment, type: str, reason: str, start: str, end: str) -> None:
        for pod in want.pods:
            self._events.event(pod, type, reason, f'{start} for volume "{want.volume.metadata.name}" {end}')

    def _record_blocked(self, want: DesiredAttachment, node: Node) -> None:
        if not self._record_error(node, attachments.unique_name(want.volume), "blocked"):
            return
        ref = want.volume.spec.claimRef
        users = self._pods.find(by_claim, NamespacedName(ref.namespace, ref.name)) if ref is not None else ()
        others = [pod for pod in users if pod.spec.nodeName in want.elsewhere]
        for pod in want.pods:
            self._events.event(pod, WARNING, "FailedAttachVolume", attachments.multi_attach_message(want, pod, others))

    def _record_error(self, node: Node, name: str, text: str) -> bool:
        """Remember the error of a volume on a node. Return whether it differs from the last one."""
        messages = self._reported_errors.setdefault(node.metadata.name, {})
        if messages.get(name) == text:
            return False
        messages[name] = text
        return True
