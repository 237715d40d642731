"""The volume manager attaches, mounts, updates and unmounts the volumes of pods (`pkg/kubelet/volumemanager`).

Callers change the desired state. A queue of volumes, each processed by one worker at a time and retried with backoff,
reconciles the actual state with it. Volumes that an earlier kubelet has set up are reconstructed from disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace

from sampan.api.semantics.pods import AnyContainer
from sampan.api.types.core_v1 import FileKeySelector, Node, Pod, PodStatus
from sampan.host.activity import Activity
from sampan.host.backoff import Backoff
from sampan.host.clock import Clock
from sampan.host.worker_thread import run_in_thread
from sampan.kubelet.metrics import KubeletMetrics
from sampan.kubelet.objects import ObjectKey, PodObjects
from sampan.kubelet.volumes.claim_resolver import ClaimResolver
from sampan.kubelet.volumes.container_mounts import ContainerMounts, env_file_value, with_mount_statuses
from sampan.kubelet.volumes.contract import SET_UP, ClaimError, NotAttached, VolumeOperationError
from sampan.kubelet.volumes.csi.client import CsiDrivers
from sampan.kubelet.volumes.csi.plugin import CsiPlugin
from sampan.kubelet.volumes.csi.registration import CsiHandler, CsiNodePublisher, VolumeLimitUpdater
from sampan.kubelet.volumes.expansion import NodeExpander, RecordEvent
from sampan.kubelet.volumes.mounter import Mounter
from sampan.kubelet.volumes.plugins.plugin_table import VolumePlugins
from sampan.kubelet.volumes.plugins.pod_certificates import NoPodCertificates, PodCertificateManager
from sampan.kubelet.volumes.plugins.trust_bundles import NoTrustBundles, TrustAnchors, TrustBundles
from sampan.kubelet.volumes.reconciler import Reconciler
from sampan.kubelet.volumes.state import (
    ActualState,
    ChangeNotifier,
    DesiredPod,
    PodVolumeKey,
    desired_pod,
    downward_api_volumes,
    has_downward_api_change,
    trust_bundle_volumes,
    volumes_with_object,
)
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.kubelet.volumes.volume_directories import CLAIMS, PeriodicChecks, VolumeDirectories, claims_of
from sampan.kubelet.volumes.volume_host import TokenManager, VolumeConfig, VolumeHost, VolumeLayout, wait_for_event
from sampan.machinery import errors
from sampan.machinery.client import Client, ConnectionFailed, Selection
from sampan.machinery.control_loop.workqueue import WorkQueue
from sampan.machinery.informer import InformerFactory
from sampan.runtimes.config import Device, Mount
from sampan.runtimes.contract import RuntimeFailure

log = logging.getLogger(__name__)

FAILED_MOUNT, FAILED_UNMOUNT = "FailedMount", "FailedUnMount"
LIMIT_EXCEEDED = "VolumeAttachmentLimitExceeded"
_BACKOFF = Backoff(0.5, 122.0)
ACTUAL_STATE, DESIRED_STATE = "actual_state_of_world", "desired_state_of_world"
_NO_PLUGIN = "N/A"
_DEADLINE_EXCEEDED = "context deadline exceeded"


_UNABLE_TO_MOUNT = "Unable to attach or mount volumes"


def describe_volume_failure(inner: str, error: Exception) -> str:
    """Return the message of the event about a volume that cannot be mounted. `inner` is its name on disk."""
    step = error.step if isinstance(error, VolumeOperationError) else SET_UP
    return f'{step} for volume "{inner}" : {error}'


def describe_missing_volumes(desired: DesiredPod, missing: Iterable[str], unattached: Iterable[str]) -> str:
    names = (" ".join(sorted(group)) for group in (missing, unattached, desired.claim_errors))
    parts = zip(("unmounted volumes", "unattached volumes", "failed to process volumes"), names, strict=True)
    return ", ".join(f"{title}=[{text}]" for title, text in parts)


def describe_claim_errors(desired: DesiredPod, missing: Iterable[str], unattached: Iterable[str] = ()) -> str:
    """Return the message of the event about volumes of which claims cannot be used."""
    reasons = "; ".join(desired.claim_errors.values())
    return f"{_UNABLE_TO_MOUNT}: {describe_missing_volumes(desired, missing, unattached)}: {reasons}"


class StillWaiting(RuntimeFailure):
    """The volumes are not ready in time. No event is recorded for this, because each failing volume has an event of its
    own.
    """


class LimitExceeded(RuntimeFailure):
    """The node has reached its volume attachment limit, so the pod must run elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeCallbacks:
    """The functions with which the volume manager notifies other parts of the kubelet, and queries them."""

    warn: Callable[[Pod, str, str], None] = lambda pod, reason, message: None
    """Record a warning event about a pod, with reason and message."""
    record_event: RecordEvent = lambda about, type, reason, message: None
    """Record an event about a pod or a claim."""
    on_ready: Callable[[str], None] = lambda uid: None
    """Receives the UID of a pod when its last missing volume is ready."""
    on_excess: Callable[[Pod, str], None] = lambda pod, message: None
    """Called repeatedly for a pod whose emptyDir exceeds its size limit, with the message for its eviction."""
    supports_recursive_read_only: Callable[[], bool] = lambda: False
    """Whether the runtime supports recursive read-only mounts."""


class VolumeManager:
    """Mounts and unmounts the volumes of the pods of a node. Volumes change only while `run()` is active."""

    def __init__(
        self,
        *,
        config: VolumeConfig,
        client: Client,
        informers: InformerFactory,
        objects: PodObjects,
        clock: Clock,
        callbacks: VolumeCallbacks,
        activity: Activity | None = None,
        mounter: Mounter | None = None,
        metrics: KubeletMetrics | None = None,
    ) -> None:
        """`client` has the identity of the node."""
        self._config, self._clock, self._objects, self._callbacks = config, clock, objects, callbacks
        self._activity = activity or Activity()
        self._node = informers.for_kind(Node, Selection(fields=f"metadata.name={config.node_name}")).lister
        gates = config.feature_gates
        self.pod_certificates: PodCertificateManager | None = None
        """Requests the certificates of pods; None if the feature is disabled."""
        if gates.is_enabled("PodCertificateRequest"):
            self.pod_certificates = PodCertificateManager(
                informers=informers,
                client_for=lambda name: client,
                find_node=self._node.get,
                clock=clock,
                on_change=lambda uid, volume: self._queue.add(PodVolumeKey(uid, volume)),
                warn=callbacks.warn,
                node_name=config.node_name,
                activity=self._activity,
            )
        trust_bundles: TrustAnchors = NoTrustBundles()
        if gates.is_enabled("ClusterTrustBundleProjection"):
            trust_bundles = TrustBundles(client=client, informers=informers, on_change=self._on_trust_bundle)
        self._host = VolumeHost(
            config=config,
            layout=VolumeLayout(config.root),
            mounter=mounter or Mounter(),
            client=client,
            informers=informers,
            objects=objects,
            tokens=TokenManager(client=client, clock=clock),
            trust_bundles=trust_bundles,
            pod_certificates=self.pod_certificates or NoPodCertificates(),
            clock=clock,
        )
        self._desired: dict[str, DesiredPod] = {}
        self._actual, self._changes = ActualState(), ChangeNotifier()
        self._drivers, self._infos = CsiDrivers(), CsiNodePublisher(client=client, node_name=config.node_name)
        self.csi_handler = CsiHandler(
            drivers=self._drivers, infos=self._infos, on_driver=lambda name: self._retry_all()
        )
        """Handler of CSI drivers for the plugin registry."""
        self._plugins = VolumePlugins(self._host, CsiPlugin(self._host, self._drivers, self.csi_handler.refresh))
        self._reconciler = Reconciler(
            host=self._host,
            plugins=self._plugins,
            claims=ClaimResolver(client=client),
            expander=NodeExpander(
                client=client, clock=clock, node_name=config.node_name, record_event=callbacks.record_event
            ),
            actual=self._actual,
            node=lambda: self._node.get(config.node_name),
            metrics=metrics or KubeletMetrics(),
        )
        self._disk = VolumeDirectories(host=self._host, plugins=self._plugins, actual=self._actual)
        self._mounts = ContainerMounts(
            host=self._host, actual=self._actual, supports_recursive_read_only=callbacks.supports_recursive_read_only
        )
        self._changed_claims: set[str] = set()
        """UIDs of pods whose claims may have been expanded."""
        self._queue: WorkQueue[PodVolumeKey] = WorkQueue(clock=clock, backoff=_BACKOFF, activity=self._activity)
        objects.subscribe(self._on_object)
        informers.for_kind(Node, Selection(fields=f"metadata.name={config.node_name}")).subscribe(self._on_node)
        self._disk.restore()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[VolumeManager]:
        """Run `run()` in the background for the duration of the context."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self.run())
            yield self
            task.cancel()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        checks = PeriodicChecks(
            config=self._config,
            clock=self._clock,
            desired=self._desired,
            disk=self._disk,
            reconciler=self._reconciler,
            changes=self._changes,
            changed=self._changed_claims,
        )
        limits = VolumeLimitUpdater(
            drivers=self._drivers,
            informers=self._host.informers,
            clock=self._clock,
            refresh=self.csi_handler.refresh,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run())
            group.create_task(checks.check_size_limits(self._callbacks.on_excess))
            group.create_task(checks.expand_volumes())
            group.create_task(limits.run())
            if self.pod_certificates is not None:
                group.create_task(self.pod_certificates.run())
            self._queue_idle_devices()
            while True:
                group.create_task(self._work(await self._queue.get()))

    # -- desired state -----------------------------------------------------------------------------------------------

    def update_pod(self, pod: Pod) -> None:
        """Note that a running pod may have changed, which may affect the content of its volumes. The volumes of a pod
        that was started before the kubelet was restarted are adopted.
        """
        desired = self._desired.get(pod.metadata.uid)
        if desired is None:
            for key in self._find_missing_volumes(self._add_desired(pod)):
                self._queue.add(key)
            return
        if desired.pod is not pod:
            self._update_desired(desired, pod)

    async def mount(self, pod: Pod) -> None:
        """Wait until all volumes of the pod are ready. Raise StillWaiting after a timeout, and RuntimeFailure if a
        claim cannot be used. Events have been recorded by then, and mounting continues in the background.
        """
        desired = self._add_desired(pod)
        until = self._clock.monotonic() + self._config.mount_timeout_s
        for key in self._find_missing_volumes(desired):
            if key.name in desired.claim_errors or not self._queue.failures(key):
                self._queue.add(key)
        desired.claim_errors.clear()
        while missing := self._find_missing_volumes(desired):
            if desired.claim_errors:
                names = [key.name for key in missing]
                message = describe_claim_errors(
                    desired, names, [key.name for key in missing if self._is_unattached(key)]
                )
                self._callbacks.warn(pod, FAILED_MOUNT, message)
                raise RuntimeFailure(FAILED_MOUNT, message)
            if not await wait_for_event(self._clock, self._changes.get_event(pod.metadata.uid), until):
                await self._check_limits(desired, missing)
                text = self._describe_missing_volumes(desired, missing)
                raise StillWaiting(FAILED_MOUNT, f"{_UNABLE_TO_MOUNT}: {text}: {_DEADLINE_EXCEEDED}")

    async def _check_limits(self, desired: DesiredPod, missing: Sequence[PodVolumeKey]) -> None:
        """Raise LimitExceeded if a missing volume cannot be attached because the node has reached its limit."""
        for key in missing:
            if self._is_unattached(key) and await self._reconciler.is_exhausted(key, desired):
                start = "Node has reached its volume attachment limit, rejecting pod."
                raise LimitExceeded(
                    LIMIT_EXCEEDED, f"{start} {self._describe_missing_volumes(desired, missing)}: {_DEADLINE_EXCEEDED}"
                )

    async def unmount(self, pod: Pod | str) -> None:
        """Unmount all volumes of a pod, given as a Pod or as the UID of a pod that is no longer known. None of its
        containers may run. Raise RuntimeFailure after a timeout; unmounting continues in the background. Idle shared
        mounts are waited for too, but their failure is not an error.
        """
        uid = pod if isinstance(pod, str) else pod.metadata.uid
        self._desired.pop(uid, None)
        self._changes.notify(uid)
        until = self._clock.monotonic() + self._config.mount_timeout_s
        for key in self._actual.volumes_of_pod(uid):
            self._queue.add(key)
        while remaining := self._actual.volumes_of_pod(uid):
            if not await wait_for_event(self._clock, self._changes.get_event(uid), until):
                names = " ".join(key.name for key in remaining)
                raise RuntimeFailure(FAILED_UNMOUNT, f"mounted volumes=[{names}]: {_DEADLINE_EXCEEDED}")
        while self._idle_devices() and await wait_for_event(self._clock, self._changes.get_event(""), until):
            pass
        await run_in_thread(self._disk.clean_up, uid)
        self._host.tokens.forget(uid)
        if self.pod_certificates is not None:
            self.pod_certificates.forget(uid)

    def mounts(self, pod: Pod, container: AnyContainer, variables: Mapping[str, str] | None = None) -> Sequence[Mount]:
        """Return the mounts of the container. `variables` are its environment variables, which subPathExpr refers to.
        Raise RuntimeFailure on errors.
        """
        return self._mounts.mounts(pod.metadata.uid, container, variables or {})

    def devices(self, pod: Pod, container: AnyContainer) -> Sequence[Device]:
        return self._mounts.devices(pod.metadata.uid, container)

    def with_mount_statuses(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Return the status with the recursive read-only mounts of the pod's containers marked, if the runtime supports
        them.
        """
        return with_mount_statuses(pod, status) if self._callbacks.supports_recursive_read_only() else status

    def file_key(self, pod: Pod, ref: FileKeySelector) -> str | None:
        """Return the value of a key in a file of the pod's volumes."""
        ready = self._actual.ready(PodVolumeKey(pod.metadata.uid, ref.volumeName))
        return env_file_value(ready.path, ref.path, ref.key) if ready is not None else None

    def extra_groups(self, pod: Pod) -> Sequence[int]:
        """Return the supplemental groups that the pod's volumes require."""
        own_groups = set(pod.spec.securityContext.supplementalGroups) if pod.spec.securityContext is not None else set()
        groups = {
            volume.group for key in self._actual.volumes_of_pod(pod.metadata.uid) if (volume := self._actual.get(key))
        }
        return sorted(group for group in groups if group is not None and group not in own_groups)

    # -- actual state ------------------------------------------------------------------------------------------------

    def list_pod_uids(self) -> Sequence[str]:
        """Return the UIDs of pods that have or may have volumes here, including those of an earlier kubelet."""
        return sorted({*self._actual.pods(), *self._host.layout.pods()})

    def list_volumes_in_use(self) -> Sequence[str]:
        """Return the value of volumesInUse in the node status, which must be written whenever it changes."""
        return self._actual.list_volumes_in_use()

    def count_volumes(self) -> Mapping[tuple[str, str], int]:
        """Return the number of volumes by plugin and state: those that are set up, and those that pods need. A volume
        that has not been set up yet has no plugin."""
        counts: Counter[tuple[str, str]] = Counter()
        for uid, desired in self._desired.items():
            for name in desired.volumes:
                volume = self._actual.get(PodVolumeKey(uid, name))
                counts[volume.plugin.name if volume is not None else _NO_PLUGIN, DESIRED_STATE] += 1
        for uid in self._actual.pods():
            for key in self._actual.volumes_of_pod(uid):
                volume = self._actual.get(key)
                if volume is not None and volume.ready is not None:
                    counts[volume.plugin.name, ACTUAL_STATE] += 1
        return counts

    async def usage(self, pod: Pod) -> Sequence[VolumeUsage]:
        """Return the usage of those volumes that can be measured."""
        usages = await run_in_thread(self._disk.measure_volumes, pod)
        return [await self._apply_driver_usage(pod, usage) for usage in usages]

    async def _apply_driver_usage(self, pod: Pod, usage: VolumeUsage) -> VolumeUsage:
        """Return the usage that the volume's driver reports, or else the measured `usage`."""
        volume = self._actual.get(PodVolumeKey(pod.metadata.uid, usage.name))
        if volume is None or volume.ready is None:
            return usage
        try:
            plugin_usage = await volume.plugin.usage(pod.metadata.uid, volume.inner, volume.ready)
        except VolumeOperationError as error:
            log.info("cannot measure the usage of volume %s of pod %s: %s", usage.name, pod.metadata.uid, error)
            return usage
        return replace(usage, **asdict(plugin_usage)) if plugin_usage is not None else usage

    # -- workers -----------------------------------------------------------------------------------------------------

    async def _work(self, key: PodVolumeKey) -> None:
        try:
            with self._activity:
                again_s = await self._reconcile(key)
        except ClaimError as error:
            self._record_claim_error(key, error)
        except (VolumeOperationError, errors.ApiError, ConnectionFailed, OSError) as error:
            self._record_failure(key, error)
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
            self._changes.notify(key.uid)

    async def _reconcile(self, key: PodVolumeKey) -> float | None:
        desired = self._desired.get(key.uid)
        if not key.uid:
            await self._reconciler.tear_down_device(key.name)
            return None
        if desired is None or key.name not in desired.volumes:
            await self._reconciler.tear_down(key)
            self._queue_idle_devices()
            return None
        was_missing = self._actual.ready(key) is None
        again_s = await self._reconciler.set_up(key, desired, lambda: self._desired.get(key.uid) is desired)
        if was_missing and not self._find_missing_volumes(desired):
            self._callbacks.on_ready(key.uid)
        return again_s

    def _idle_devices(self) -> list[PodVolumeKey]:
        """Return idle shared mounts, except those whose unmounting has failed and is being retried."""
        return [
            key
            for unique_name in self._actual.idle_devices()
            if not self._queue.failures(key := PodVolumeKey("", unique_name))
        ]

    def _queue_idle_devices(self) -> None:
        for key in self._idle_devices():
            self._queue.add(key)

    def _record_failure(self, key: PodVolumeKey, error: Exception) -> None:
        pause_s = self._queue.retry(key)
        desired = self._desired.get(key.uid)
        log.info("cannot mount or unmount volume %s of pod %s: %s; retrying in %g s", key.name, key.uid, error, pause_s)
        if desired is None or (isinstance(error, NotAttached) and not error.text):
            return
        inner = desired.inner.get(key.name, key.name)
        self._callbacks.warn(desired.pod, FAILED_MOUNT, describe_volume_failure(inner, error))

    def _record_claim_error(self, key: PodVolumeKey, error: ClaimError) -> None:
        self._queue.retry(key)
        desired = self._desired.get(key.uid)
        if desired is not None:
            desired.claim_errors[key.name] = error.text

    # -- changes -----------------------------------------------------------------------------------------------------

    def _add_desired(self, pod: Pod) -> DesiredPod:
        uid = pod.metadata.uid
        desired = self._desired.get(uid)
        if desired is None:
            desired = self._desired[uid] = desired_pod(pod)
            self._objects.follow(pod)
            if self.pod_certificates is not None:
                self.pod_certificates.track(pod)
        elif desired.pod is not pod:
            self._update_desired(desired, pod)
        return desired

    def _update_desired(self, desired: DesiredPod, pod: Pod) -> None:
        """Update the desired state of a changed pod. A new ephemeral container may use further volumes."""
        before, desired.pod = desired.pod, pod
        if claims_of(desired):
            self._changed_claims.add(pod.metadata.uid)
            self._changes.notify(CLAIMS)
        if before.spec.ephemeralContainers != pod.spec.ephemeralContainers:
            fresh = desired_pod(pod)
            desired.volumes, desired.mounts, desired.devices = fresh.volumes, fresh.mounts, fresh.devices
        if has_downward_api_change(before, pod):
            for name in downward_api_volumes(desired):
                self._queue.add(PodVolumeKey(pod.metadata.uid, name))

    def _on_object(self, key: ObjectKey) -> None:
        for uid in self._objects.users(key):
            desired = self._desired.get(uid)
            for name in volumes_with_object(desired, key) if desired is not None else ():
                self._queue.add(PodVolumeKey(uid, name))

    def _on_trust_bundle(self) -> None:
        for uid, desired in self._desired.items():
            for name in trust_bundle_volumes(desired):
                self._queue.add(PodVolumeKey(uid, name))

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        """Retry the missing volumes when the attached volumes of the node have changed."""
        if old is not None and new is not None and old.status.volumesAttached != new.status.volumesAttached:
            self._retry_all()

    def _retry_all(self) -> None:
        for desired in self._desired.values():
            for key in self._find_missing_volumes(desired):
                self._queue.add(key)
        for uid in self._actual.pods():
            for key in self._actual.volumes_of_pod(uid) if uid not in self._desired else ():
                if self._queue.failures(key):
                    self._queue.add(key)
        for unique_name in self._actual.idle_devices():
            self._queue.add(PodVolumeKey("", unique_name))

    def _find_missing_volumes(self, desired: DesiredPod) -> list[PodVolumeKey]:
        uid = desired.pod.metadata.uid
        return [key for name in desired.volumes if self._actual.ready(key := PodVolumeKey(uid, name)) is None]

    # -- messages ----------------------------------------------------------------------------------------------------

    def _describe_missing_volumes(self, desired: DesiredPod, missing: Sequence[PodVolumeKey]) -> str:
        unattached = [key.name for key in missing if self._is_unattached(key)]
        return describe_missing_volumes(desired, [key.name for key in missing], unattached)

    def _is_unattached(self, key: PodVolumeKey) -> bool:
        volume, node = self._actual.get(key), self._node.get(self._config.node_name)
        if volume is None or volume.device is None or not volume.device.is_attachable:
            return False
        return node is None or all(
            attached_volume.name != volume.device.unique_name for attached_volume in node.status.volumesAttached
        )
