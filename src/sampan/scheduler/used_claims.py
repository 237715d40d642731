"""Which nodes have pods that use a PersistentVolumeClaim."""

from collections.abc import Collection, Sequence

from sampan.api.types.core_v1 import PodSpec, Volume
from sampan.machinery.object_key import Key
from sampan.machinery.volumes.claims_of_pods import claim_name_of
from sampan.scheduler.pod_info import PodInfo


def claiming_volumes(spec: PodSpec) -> Sequence[Volume]:
    return tuple(
        volume for volume in spec.volumes if volume.persistentVolumeClaim is not None or volume.ephemeral is not None
    )


class UsedClaims:
    def __init__(self) -> None:
        self._rows: dict[Key, dict[int, int]] = {}
        """How many pods of each row use a claim."""

    def add(self, info: PodInfo, row: int, by: int) -> None:
        for volume in info.needs.parsed("claiming volumes", claiming_volumes):
            key = Key(info.namespace, claim_name_of(info.pod, volume))
            rows = self._rows.setdefault(key, {})
            count = rows.get(row, 0) + by
            if count:
                rows[row] = count
            else:
                rows.pop(row, None)
                if not rows:
                    del self._rows[key]

    def rows(self, claim: Key) -> Collection[int]:
        """Return the rows with pods that use the claim."""
        return self._rows.get(claim, {}).keys()
