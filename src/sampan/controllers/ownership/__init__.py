"""Shared code of controllers that own other objects: adoption, expectations, and creation and deletion of pods.

- `references`: controller references.
- `candidates`: indexes from owners to objects and from objects to owners.
- `claims`: keeping, adopting and releasing objects, guarded by UID.
- `expectations`: creations and deletions that the cache does not show yet; `own_writes`: updates likewise.
- `pods`: creation and deletion of pods with their events.
- `batches`: slow-start batches of requests; `ranking`: the order in which surplus pods are deleted.
- `revisions`: ControllerRevision history; `failures`: backoff in replacing failed pods.

The counterparts are `pkg/controller/controller_utils.go`, `controller_ref_manager.go` and `pkg/controller/history`.
Nothing here depends on the kind of the owner.
"""

from sampan.controllers.ownership.batches import Outcome, slow_start
from sampan.controllers.ownership.candidates import OwnerIndex, candidates
from sampan.controllers.ownership.claims import ClaimControl, claim
from sampan.controllers.ownership.expectations import Expectations
from sampan.controllers.ownership.own_writes import OwnWrites
from sampan.controllers.ownership.pods import PodControl, pod_from

__all__ = [
    "ClaimControl",
    "Expectations",
    "Outcome",
    "OwnWrites",
    "OwnerIndex",
    "PodControl",
    "candidates",
    "claim",
    "pod_from",
    "slow_start",
]
