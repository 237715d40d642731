"""State of volumes on disk: reconstruction after a restart, cleanup, usage, and the periodic checks of size limits and
expansion.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping

from sampan.api.types.core_v1 import Pod
from sampan.host.clock import Clock
from sampan.host.linux.directory_trees import TreeMeter
from sampan.host.worker_thread import run_in_thread
from sampan.kubelet.volumes import subpaths, usage
from sampan.kubelet.volumes.claim_resolver import find_claim_source
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.kubelet.volumes.plugins.plugin_table import VolumePlugins
from sampan.kubelet.volumes.reconciler import Reconciler, remove_empty
from sampan.kubelet.volumes.state import ActualState, ActualVolume, ChangeNotifier, DesiredPod, PodVolumeKey
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.kubelet.volumes.volume_host import VolumeConfig, VolumeHost, wait_for_event
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed

log = logging.getLogger(__name__)

CLAIMS = "claims"
"""The key in `changes` that is notified when the UID of a pod is added to `changed`."""


class VolumeDirectories:
    def __init__(self, *, host: VolumeHost, plugins: VolumePlugins, actual: ActualState) -> None:
        self._host, self._plugins, self._actual = host, plugins, actual
        self._meter = TreeMeter(clock=host.clock)

    def restore(self) -> None:
        """Record all volumes and shared mounts found on disk. Those that are desired will be adopted, the others
        unmounted.
        """
        for uid in self._host.layout.pods():
            for _, name, inner in self._host.layout.volumes_of_pod(uid):
                plugin = self._plugins.find_plugin_by_name(name)
                if plugin is not None:
                    device = plugin.device_on_disk(uid, inner)
                    volume = ActualVolume(plugin=plugin, inner=inner, device=device)
                    self._actual.put(PodVolumeKey(uid, f"{name}/{inner}"), volume)
        for plugin in self._plugins:
            for device in plugin.devices_on_disk():
                self._actual.put_device(plugin, device)

    def clean_up(self, uid: str) -> None:
        """Remove the subpaths and empty volume directories of a pod after its volumes have been unmounted."""
        layout = self._host.layout
        subpaths.clean(self._host.mounter, layout.subpaths(uid))
        for directory in (layout.volumes(uid), layout.pod(uid) / "volumeDevices", layout.pod(uid) / "plugins"):
            for path in sorted(directory.glob("*")):
                remove_empty(path, layout.pod(uid))
            remove_empty(directory, layout.pod(uid))

    def excesses(self, pod: Pod) -> list[str]:
        """Return the eviction messages for volumes that exceed their size limit."""
        messages = []
        for volume, limit in usage.list_size_limits(pod):
            ready = self._actual.ready(PodVolumeKey(pod.metadata.uid, volume.name))
            if ready is None:
                continue
            with contextlib.suppress(OSError):  # The volume may be unmounted concurrently.
                if message := usage.excess(volume, limit, self._meter.measure(ready.path).size):
                    messages.append(message)
        return messages

    def measure_volumes(self, pod: Pod) -> list[VolumeUsage]:
        """Return the usage of those volumes that can be measured."""
        usages = []
        for volume in pod.spec.volumes:
            ready = self._actual.ready(PodVolumeKey(pod.metadata.uid, volume.name))
            if ready is None or ready.image or ready.device is not None or volume.hostPath is not None:
                continue
            source = find_claim_source(pod, volume)
            claim, is_file_system = (
                source.claimName if source is not None else "",
                self._host.mounter.is_mounted(ready.path),
            )
            try:
                usages.append(
                    usage.measure(volume.name, ready.path, self._meter, is_file_system=is_file_system, claim=claim)
                )
            except OSError as error:
                log.info("cannot measure the usage of volume %s of pod %s: %s", volume.name, pod.metadata.uid, error)
        return usages


class PeriodicChecks:
    def __init__(
        self,
        *,
        config: VolumeConfig,
        clock: Clock,
        desired: Mapping[str, DesiredPod],
        disk: VolumeDirectories,
        reconciler: Reconciler,
        changes: ChangeNotifier,
        changed: set[str],
    ) -> None:
        """`changed` contains the UIDs of pods whose claims should be checked soon. They are removed from it once they
        are checked.
        """
        self._config, self._clock, self._desired, self._disk = config, clock, desired, disk
        self._reconciler, self._changes, self._changed = reconciler, changes, changed

    async def check_size_limits(self, on_excess: Callable[[Pod, str], None]) -> None:
        while True:
            await self._clock.sleep(self._config.size_check_period_s)
            for desired in list(self._desired.values()):
                if usage.list_size_limits(desired.pod):
                    for message in await run_in_thread(self._disk.excesses, desired.pod):
                        on_excess(desired.pod, message)

    async def expand_volumes(self) -> None:
        """Check the claims of all pods periodically, and those of a changed pod at once."""
        while True:
            until = self._clock.monotonic() + self._config.expansion_check_period_s
            is_early = bool(self._changed) or await wait_for_event(self._clock, self._changes.get_event(CLAIMS), until)
            uids = list(self._changed if is_early else self._desired)
            self._changed.clear()
            for desired in [desired_pod for uid in uids if (desired_pod := self._desired.get(uid)) is not None]:
                for name in claims_of(desired):
                    await self._expand(PodVolumeKey(desired.pod.metadata.uid, name), desired)

    async def _expand(self, key: PodVolumeKey, desired: DesiredPod) -> None:
        try:
            await self._reconciler.expand_in_use(key, desired)
        except (VolumeOperationError, errors.ApiError, ConnectionFailed, OSError) as error:
            log.info("cannot read the size of volume %s of pod %s: %s", key.name, key.uid, error)


def claims_of(desired: DesiredPod) -> list[str]:
    """Return the names of the pod's volumes that have a claim. Pure."""
    return [name for name, volume in desired.volumes.items() if find_claim_source(desired.pod, volume) is not None]
