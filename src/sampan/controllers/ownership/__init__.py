"""Shared code of controllers that own other objects: adoption, expectations, and creation and deletion of pods.

- `adoption`: which objects an owner keeps, adopts and releases, and the indexes to find them.
- `expectations`: creations and deletions that the cache does not show yet.
- `pods`: creation and deletion of pods with their events, slow-start batches, backoff in replacing failed pods.
- `deletion_order`: the order in which surplus pods are deleted; `revisions`: ControllerRevision history.

The counterparts are `pkg/controller/controller_utils.go`, `controller_ref_manager.go` and `pkg/controller/history`.
Nothing here depends on the kind of the owner.
"""

from sampan.controllers.ownership.adoption import ClaimControl, OwnerIndex, candidates, claim
from sampan.controllers.ownership.expectations import Expectations
from sampan.controllers.ownership.pods import BatchResult, PodControl, pod_from, slow_start

__all__ = [
    "BatchResult",
    "ClaimControl",
    "Expectations",
    "OwnerIndex",
    "PodControl",
    "candidates",
    "claim",
    "pod_from",
    "slow_start",
]
