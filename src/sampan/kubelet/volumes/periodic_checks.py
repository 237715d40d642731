"""Periodic checks of volumes that are set up: size limits and expansion."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from sampan.api.types.core_v1 import Pod
from sampan.kubelet.volumes import usage
from sampan.kubelet.volumes.claim_resolver import claimed
from sampan.kubelet.volumes.contract import VolumeOperationError
from sampan.kubelet.volumes.reconciler import Reconciler
from sampan.kubelet.volumes.state import ChangeNotifier, DesiredPod, PodVolumeKey
from sampan.kubelet.volumes.volume_directories import VolumeDirectories
from sampan.kubelet.volumes.volume_host import VolumeConfig, happens_by, in_thread
from sampan.machinery import errors
from sampan.machinery.client import ConnectionFailed
from sampan.machinery.clock import Clock

log = logging.getLogger(__name__)

CLAIMS = "claims"
"""Key among the changes that is notified when a pod is added to `changed`."""


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
        """`changed` contains the UIDs of pods whose claims should be checked soon; they are removed from it."""
        self._config, self._clock, self._desired, self._disk = config, clock, desired, disk
        self._reconciler, self._changes, self._changed = reconciler, changes, changed

    async def check_size_limits(self, on_excess: Callable[[Pod, str], None]) -> None:
        while True:
            await self._clock.sleep(self._config.size_check_period_s)
            for desired in list(self._desired.values()):
                if usage.limited(desired.pod):
                    for message in await in_thread(self._disk.excesses, desired.pod):
                        on_excess(desired.pod, message)

    async def expand_volumes(self) -> None:
        """Check the claims of all pods periodically, and those of a changed pod at once."""
        while True:
            until = self._clock.monotonic() + self._config.expansion_check_period_s
            is_early = bool(self._changed) or await happens_by(self._clock, self._changes.of(CLAIMS), until)
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
    """Return the volumes with a claim. Pure."""
    return [name for name, volume in desired.volumes.items() if claimed(desired.pod, volume) is not None]
