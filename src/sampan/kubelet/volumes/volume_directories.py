"""State of volumes on disk: reconstruction after a restart, cleanup, usage."""

from __future__ import annotations

import contextlib
import logging

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.volumes import subpaths, usage
from sampan.kubelet.volumes.claim_resolver import claimed
from sampan.kubelet.volumes.plugins.table import VolumePlugins
from sampan.kubelet.volumes.reconciler import remove_empty
from sampan.kubelet.volumes.state import ActualState, ActualVolume, PodVolumeKey
from sampan.kubelet.volumes.usage import VolumeUsage
from sampan.kubelet.volumes.volume_host import VolumeHost

log = logging.getLogger(__name__)


class VolumeDirectories:
    def __init__(self, *, host: VolumeHost, plugins: VolumePlugins, actual: ActualState) -> None:
        self._host, self._plugins, self._actual = host, plugins, actual

    def restore(self) -> None:
        """Record everything that is set up. Volumes that are desired will be adopted, the others unmounted."""
        for uid in self._host.layout.pods():
            for _, name, inner in self._host.layout.volumes_of_pod(uid):
                plugin = self._plugins.named(name)
                if plugin is not None:
                    device = plugin.device_on_disk(uid, inner)
                    volume = ActualVolume(plugin=plugin, inner=inner, device=device)
                    self._actual.put(PodVolumeKey(uid, f"{name}/{inner}"), volume)
        for plugin in self._plugins:
            for device in plugin.devices_on_disk():
                self._actual.put_device(plugin, device)

    def clean_up(self, uid: str) -> None:
        """Remove what is left of a pod after its volumes have been unmounted."""
        layout = self._host.layout
        subpaths.clean(self._host.mounter, layout.subpaths(uid))
        for directory in (layout.volumes(uid), layout.pod(uid) / "volumeDevices", layout.pod(uid) / "plugins"):
            for path in sorted(directory.glob("*")):
                remove_empty(path, layout.pod(uid))
            remove_empty(directory, layout.pod(uid))

    def excesses(self, pod: Pod) -> list[str]:
        """Return the eviction messages for volumes that exceed their size limit."""
        messages = []
        for volume, limit in usage.limited(pod):
            ready = self._actual.ready(PodVolumeKey(pod.metadata.uid, volume.name))
            if ready is None:
                continue
            with contextlib.suppress(OSError):  # The volume may be unmounted concurrently.
                if message := usage.excess(volume, limit, usage.disk_usage(ready.path)[0]):
                    messages.append(message)
        return messages

    def measured(self, pod: Pod) -> list[VolumeUsage]:
        """Return the usage of those volumes that can be measured."""
        usages = []
        for volume in pod.spec.volumes:
            ready = self._actual.ready(PodVolumeKey(pod.metadata.uid, volume.name))
            if ready is None or ready.image or ready.device is not None or volume.hostPath is not None:
                continue
            source = claimed(pod, volume)
            claim, is_file_system = (
                source.claimName if source is not None else "",
                self._host.mounter.is_mounted(ready.path),
            )
            try:
                usages.append(usage.measure(volume.name, ready.path, is_file_system=is_file_system, claim=claim))
            except OSError as error:
                log.info("cannot measure the usage of volume %s of pod %s: %s", volume.name, pod.metadata.uid, error)
        return usages
