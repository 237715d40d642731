"""The volume manager attaches, mounts, updates and unmounts the volumes of pods (`pkg/kubelet/volumemanager`).

Callers change the desired state; a queue of volumes, each processed by one worker at a time and retried with back-off,
reconciles the actual state with it. What an earlier kubelet has set up is reconstructed from disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace

from sampan.api.types.core_v1 import FileKeySelector, Node, Pod, PodStatus
from sampan.kubelet.objects import ObjectKey, PodObjects
from sampan.kubelet.volumes import env_files, mount_statuses
from sampan.kubelet.volumes.claims import Claims
from sampan.kubelet.volumes.container_mounts import ContainerMounts
from sampan.kubelet.volumes.contract import SET_UP, ClaimFault, NotAttached, VolumeFault
from sampan.kubelet.volumes.csi.client import Drivers
from sampan.kubelet.volumes.csi.handler import CsiHandler
from sampan.kubelet.volumes.csi.limits import Limits
from sampan.kubelet.volumes.csi.node_info import NodeInfos
from sampan.kubelet.volumes.csi.plugin import Csi
from sampan.kubelet.volumes.disk import Disk
from sampan.kubelet.volumes.growth import Growth, Tell
from sampan.kubelet.volumes.host import Host, VolumeConfig
from sampan.kubelet.volumes.layout import Layout
from sampan.kubelet.volumes.mounting import Mounter
from sampan.kubelet.volumes.plugins.table import Plugins
from sampan.kubelet.volumes.reconciler import Reconciler
from sampan.kubelet.volumes.sizes import VolumeUsage
from sampan.kubelet.volumes.state import (
    Actual,
    AnyContainer,
    Changes,
    DesiredPod,
    Key,
    desired_pod,
    is_other,
    made_of,
    of_pod,
)
from sampan.kubelet.volumes.tokens import Tokens
from sampan.kubelet.volumes.trust_bundles import TrustBundles
from sampan.kubelet.volumes.waiting import happens_by, in_thread
from sampan.kubelet.volumes.watching import CLAIMS, Watching, claims_of
from sampan.machinery import errors
from sampan.machinery.activity import Activity
from sampan.machinery.client import Client, ConnectionFailed, Selection
from sampan.machinery.clock import Clock
from sampan.machinery.informer import InformerFactory
from sampan.machinery.workqueue import Backoff, WorkQueue
from sampan.runtimes.config import Device, Mount
from sampan.runtimes.contract import RuntimeFailure

log = logging.getLogger(__name__)

FAILED_MOUNT, FAILED_UNMOUNT = "FailedMount", "FailedUnMount"
LIMIT_EXCEEDED = "VolumeAttachmentLimitExceeded"
_BACKOFF = Backoff(0.5, 122.0)
_TOO_LATE = "context deadline exceeded"


class StillWaiting(RuntimeFailure):
    """Volumes are not ready in time. No event is recorded for this, because each failing volume has its own."""


class LimitExceeded(RuntimeFailure):
    """The node has reached its volume attachment limit, so the pod must run elsewhere."""


class VolumeManager:
    """`run()` must be active for anything to happen."""

    def __init__(
        self,
        *,
        config: VolumeConfig,
        client: Client,
        informers: InformerFactory,
        objects: PodObjects,
        clock: Clock,
        warn: Callable[[Pod, str, str], None] = lambda pod, reason, message: None,
        told: Callable[[str], None] = lambda uid: None,
        on_excess: Callable[[Pod, str], None] = lambda pod, message: None,
        tell: Tell = lambda about, type, reason, message: None,
        can_recurse: Callable[[], bool] = lambda: False,
        activity: Activity | None = None,
        mounter: Mounter | None = None,
    ) -> None:
        """`client` has the identity of the node. `warn` records an event about a pod. `told` receives the UID of a pod
        when its last missing volume is ready. `on_excess` is called repeatedly for a pod whose emptyDir exceeds its
        size limit, with the message for its eviction. `can_recurse` tells whether the runtime supports recursive read-
        only mounts.
        """
        self._config, self._clock, self._objects, self._can_recurse = config, clock, objects, can_recurse
        self._warn, self._told_pod, self._on_excess = warn, told, on_excess
        self._activity = activity or Activity()
        self._host = Host(
            config=config,
            layout=Layout(config.root),
            mounter=mounter or Mounter(),
            client=client,
            informers=informers,
            objects=objects,
            tokens=Tokens(client=client, clock=clock),
            bundles=TrustBundles(client=client),
            clock=clock,
        )
        self._desired: dict[str, DesiredPod] = {}
        self._actual, self._changes = Actual(), Changes()
        self._node = informers.of(Node, Selection(fields=f"metadata.name={config.node_name}")).lister
        self._drivers, self._infos = Drivers(), NodeInfos(client=client, node_name=config.node_name)
        self.csi_handler = CsiHandler(
            drivers=self._drivers, infos=self._infos, on_driver=lambda name: self._retry_all()
        )
        """Handler of CSI drivers for the plug-in registry."""
        self._plugins = Plugins(self._host, Csi(self._host, self._drivers, self.csi_handler.refresh))
        self._reconciler = Reconciler(
            host=self._host,
            plugins=self._plugins,
            claims=Claims(client=client),
            growth=Growth(client=client, clock=clock, node_name=config.node_name, tell=tell),
            actual=self._actual,
            node=lambda: self._node.get(config.node_name),
        )
        self._disk = Disk(host=self._host, plugins=self._plugins, actual=self._actual)
        self._mounts = ContainerMounts(host=self._host, actual=self._actual, can_recurse=can_recurse)
        self._to_measure: set[str] = set()
        """UIDs of pods whose claims may have been expanded."""
        self._queue: WorkQueue[Key] = WorkQueue(clock=clock, backoff=_BACKOFF, activity=self._activity)
        objects.subscribe(self._on_object)
        informers.of(Node, Selection(fields=f"metadata.name={config.node_name}")).subscribe(self._on_node)
        self._disk.restore()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[VolumeManager]:
        """Run `run()` in the background of the context."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.run())
            yield self
            task.cancel()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        watching = Watching(
            config=self._config,
            clock=self._clock,
            desired=self._desired,
            disk=self._disk,
            reconciler=self._reconciler,
            changes=self._changes,
            changed=self._to_measure,
        )
        limits = Limits(
            drivers=self._drivers,
            informers=self._host.informers,
            clock=self._clock,
            refresh=self.csi_handler.refresh,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run())
            group.create_task(watching.excesses(self._on_excess))
            group.create_task(watching.growth())
            group.create_task(limits.run())
            self._let_go_of_devices()
            while True:
                group.create_task(self._work(await self._queue.get()))

    # -- desired state -----------------------------------------------------------------------------------------------

    def follow(self, pod: Pod) -> None:
        """Note that a running pod may have changed, which may affect the content of its volumes. The volumes of a pod
        that has been running since before a restart of the kubelet are adopted.
        """
        desired = self._desired.get(pod.metadata.uid)
        if desired is None:
            for key in self._missing(self._want(pod)):
                self._queue.add(key)
            return
        if desired.pod is not pod:
            self._renew(desired, pod)

    async def mount(self, pod: Pod) -> None:
        """Wait until all volumes of the pod are ready. Raise StillWaiting after a timeout, and RuntimeFailure if a
        claim cannot be used. Events have been recorded by then, and mounting continues in the background.
        """
        desired = self._want(pod)
        until = self._clock.monotonic() + self._config.patience_s
        for key in self._missing(desired):
            if key.name in desired.faults or not self._queue.failures(key):
                self._queue.add(key)
        desired.faults.clear()
        while missing := self._missing(desired):
            if desired.faults:
                why = "; ".join(desired.faults.values())
                message = self._told(desired, missing, why)
                self._warn(pod, FAILED_MOUNT, message)
                raise RuntimeFailure(FAILED_MOUNT, message)
            if not await happens_by(self._clock, self._changes.of(pod.metadata.uid), until):
                await self._check_limits(desired, missing)
                raise StillWaiting(FAILED_MOUNT, self._told(desired, missing, _TOO_LATE))

    async def _check_limits(self, desired: DesiredPod, missing: Sequence[Key]) -> None:
        """Raise LimitExceeded if a missing volume cannot be attached because the node has reached its limit."""
        for key in missing:
            if self._is_unattached(key) and await self._reconciler.is_exhausted(key, desired):
                start = "Node has reached its volume attachment limit, rejecting pod."
                raise LimitExceeded(LIMIT_EXCEEDED, f"{start} {self._missing_parts(desired, missing)}: {_TOO_LATE}")

    async def unmount(self, pod: Pod | str) -> None:
        """Unmount all volumes of a pod none of whose containers runs, or of the UID of a pod that is no longer known.
        Raise RuntimeFailure after a timeout; unmounting continues in the background. Idle shared mounts are waited for
        too, but their failure is not an error.
        """
        uid = pod if isinstance(pod, str) else pod.metadata.uid
        self._desired.pop(uid, None)
        self._changes.tell(uid)
        until = self._clock.monotonic() + self._config.patience_s
        for key in self._actual.of_pod(uid):
            self._queue.add(key)
        while remaining := self._actual.of_pod(uid):
            if not await happens_by(self._clock, self._changes.of(uid), until):
                names = " ".join(key.name for key in remaining)
                raise RuntimeFailure(FAILED_UNMOUNT, f"mounted volumes=[{names}]: {_TOO_LATE}")
        while self._leaving_devices() and await happens_by(self._clock, self._changes.of(""), until):
            pass
        await in_thread(self._disk.clean_up, uid)
        self._host.tokens.forget(uid)

    def mounts(self, pod: Pod, container: AnyContainer, variables: Mapping[str, str] | None = None) -> Sequence[Mount]:
        """Return the mounts of the container. `variables` are its environment variables, for subPathExpr. Raise
        RuntimeFailure on errors.
        """
        return self._mounts.mounts(pod.metadata.uid, container, variables or {})

    def devices(self, pod: Pod, container: AnyContainer) -> Sequence[Device]:
        return self._mounts.devices(pod.metadata.uid, container)

    def told(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Return the status extended by which mounts are recursively read-only."""
        return mount_statuses.told(pod, status) if self._can_recurse() else status

    def file_key(self, pod: Pod, ref: FileKeySelector) -> str | None:
        """Return the value of a key in a file of the pod's volumes."""
        ready = self._actual.ready(Key(pod.metadata.uid, ref.volumeName))
        return env_files.value(ready.path, ref.path, ref.key) if ready is not None else None

    def extra_groups(self, pod: Pod) -> Sequence[int]:
        """Return the supplemental groups that the pod's volumes require."""
        own_groups = set(pod.spec.securityContext.supplementalGroups) if pod.spec.securityContext is not None else set()
        groups = {volume.group for key in self._actual.of_pod(pod.metadata.uid) if (volume := self._actual.get(key))}
        return sorted(group for group in groups if group is not None and group not in own_groups)

    # -- actual state ------------------------------------------------------------------------------------------------

    def known_pods(self) -> Sequence[str]:
        """Return the UIDs of pods that have or may have volumes here, including those of an earlier kubelet."""
        return sorted({*self._actual.pods(), *self._host.layout.pods()})

    def in_use(self) -> Sequence[str]:
        """Return the value of volumesInUse in the node status, which must be written whenever it changes."""
        return self._actual.in_use()

    async def usage(self, pod: Pod) -> Sequence[VolumeUsage]:
        """Return the usage of those volumes that can be measured."""
        usages = await in_thread(self._disk.measured, pod)
        return [await self._as_kept(pod, usage) for usage in usages]

    async def _as_kept(self, pod: Pod, usage: VolumeUsage) -> VolumeUsage:
        """Return the usage as reported by the volume's driver if it reports any."""
        volume = self._actual.get(Key(pod.metadata.uid, usage.name))
        if volume is None or volume.ready is None:
            return usage
        try:
            plugin_usage = await volume.plugin.usage(pod.metadata.uid, volume.inner, volume.ready)
        except VolumeFault as error:
            log.info("cannot measure the usage of volume %s of pod %s: %s", usage.name, pod.metadata.uid, error)
            return usage
        return replace(usage, **asdict(plugin_usage)) if plugin_usage is not None else usage

    # -- workers -----------------------------------------------------------------------------------------------------

    async def _work(self, key: Key) -> None:
        try:
            with self._activity:
                again_s = await self._reconcile(key)
        except ClaimFault as error:
            self._note_claim(key, error)
        except (VolumeFault, errors.ApiError, ConnectionFailed, OSError) as error:
            self._note(key, error)
        except Exception:
            log.exception(
                "mount or unmount of volume %s of pod %s failed; retrying in %g s",
                key.name,
                key.uid,
                self._queue.retry(key),
            )
        else:
            self._queue.forget(key)
            if again_s is not None:
                self._queue.add_after(key, again_s, follows_wall_clock=True)
        finally:
            self._queue.done(key)
            self._changes.tell(key.uid)

    async def _reconcile(self, key: Key) -> float | None:
        desired = self._desired.get(key.uid)
        if not key.uid:
            await self._reconciler.tear_down_device(key.name)
            return None
        if desired is None or key.name not in desired.volumes:
            await self._reconciler.tear_down(key)
            self._let_go_of_devices()
            return None
        was_missing = self._actual.ready(key) is None
        again_s = await self._reconciler.set_up(key, desired, lambda: self._desired.get(key.uid) is desired)
        if was_missing and not self._missing(desired):
            self._told_pod(key.uid)
        return again_s

    def _leaving_devices(self) -> list[Key]:
        """Return idle shared mounts, except those whose unmounting has failed and is being retried."""
        return [key for unique in self._actual.idle_devices() if not self._queue.failures(key := Key("", unique))]

    def _let_go_of_devices(self) -> None:
        for key in self._leaving_devices():
            self._queue.add(key)

    def _note(self, key: Key, fault: Exception) -> None:
        pause_s = self._queue.retry(key)
        desired = self._desired.get(key.uid)
        log.info("cannot mount or unmount volume %s of pod %s: %s; retrying in %g s", key.name, key.uid, fault, pause_s)
        if desired is None or (isinstance(fault, NotAttached) and not fault.text):
            return
        step = fault.step if isinstance(fault, VolumeFault) else SET_UP
        inner = desired.inner.get(key.name, key.name)
        self._warn(desired.pod, FAILED_MOUNT, f'{step} for volume "{inner}" : {fault}')

    def _note_claim(self, key: Key, fault: ClaimFault) -> None:
        self._queue.retry(key)
        desired = self._desired.get(key.uid)
        if desired is not None:
            desired.faults[key.name] = fault.text

    # -- changes -----------------------------------------------------------------------------------------------------

    def _want(self, pod: Pod) -> DesiredPod:
        uid = pod.metadata.uid
        desired = self._desired.get(uid)
        if desired is None:
            desired = self._desired[uid] = desired_pod(pod)
            self._objects.follow(pod)
        elif desired.pod is not pod:
            self._renew(desired, pod)
        return desired

    def _renew(self, desired: DesiredPod, pod: Pod) -> None:
        """Update the desired state of a changed pod. A new ephemeral container may use further volumes."""
        before, desired.pod = desired.pod, pod
        if claims_of(desired):
            self._to_measure.add(pod.metadata.uid)
            self._changes.tell(CLAIMS)
        if before.spec.ephemeralContainers != pod.spec.ephemeralContainers:
            fresh = desired_pod(pod)
            desired.volumes, desired.mounts, desired.devices = fresh.volumes, fresh.mounts, fresh.devices
        if is_other(before, pod):
            for name in of_pod(desired):
                self._queue.add(Key(pod.metadata.uid, name))

    def _on_object(self, key: ObjectKey) -> None:
        for uid in self._objects.users(key):
            desired = self._desired.get(uid)
            for name in made_of(desired, key) if desired is not None else ():
                self._queue.add(Key(uid, name))

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        """Retry when the attached volumes of the node have changed."""
        if old is not None and new is not None and old.status.volumesAttached != new.status.volumesAttached:
            self._retry_all()

    def _retry_all(self) -> None:
        for desired in self._desired.values():
            for key in self._missing(desired):
                self._queue.add(key)
        for uid in self._actual.pods():
            for key in self._actual.of_pod(uid) if uid not in self._desired else ():
                if self._queue.failures(key):
                    self._queue.add(key)
        for unique in self._actual.idle_devices():
            self._queue.add(Key("", unique))

    def _missing(self, desired: DesiredPod) -> list[Key]:
        uid = desired.pod.metadata.uid
        return [key for name in desired.volumes if self._actual.ready(key := Key(uid, name)) is None]

    # -- messages ----------------------------------------------------------------------------------------------------

    def _told(self, desired: DesiredPod, missing: Sequence[Key], why: str) -> str:
        return f"Unable to attach or mount volumes: {self._missing_parts(desired, missing)}: {why}"

    def _missing_parts(self, desired: DesiredPod, missing: Sequence[Key]) -> str:
        unmounted = " ".join(sorted(key.name for key in missing))
        unattached = " ".join(sorted(key.name for key in missing if self._is_unattached(key)))
        unknown = " ".join(sorted(desired.faults))
        parts = f"unattached volumes=[{unattached}], failed to process volumes=[{unknown}]"
        return f"unmounted volumes=[{unmounted}], {parts}"

    def _is_unattached(self, key: Key) -> bool:
        volume, node = self._actual.get(key), self._node.get(self._config.node_name)
        if volume is None or volume.device is None or not volume.device.is_attachable:
            return False
        return node is None or all(
            attached_volume.name != volume.device.unique for attached_volume in node.status.volumesAttached
        )
