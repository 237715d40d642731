"""What controllers that own other objects share: which objects are theirs, what they wait for, how pods are made and in
which order they go.

- `references`: the controller reference, and whose an object is.
- `candidates`: which objects an owner has to look at, and which owners an object concerns.
- `claims`: keep, adopt and release, safe by uid.
- `expectations`: what was created or deleted and is not yet in the cache; `own_writes`: the same for one's own updates.
- `pods`: make and delete pods, with the events that tell of it; `pod_facts`: what a pod's state says.
- `batches`: many calls, few of them in vain; `ranking`: which pods go first.
- `revisions`: the history of an owner's templates; `failures`: when pods that fail again and again are replaced.

Nothing here knows one kind of owner from another.
"""

from sampan.controllers.ownership.batches import Outcome, slow_start
from sampan.controllers.ownership.candidates import OwnerIndex, candidates
from sampan.controllers.ownership.claims import ClaimControl, claim
from sampan.controllers.ownership.expectations import Expectations
from sampan.controllers.ownership.own_writes import OwnWrites
from sampan.controllers.ownership.pods import PodControl, pod_from
from sampan.controllers.ownership.references import controller_of, controller_ref, is_controlled_by

__all__ = [
    "ClaimControl",
    "Expectations",
    "Outcome",
    "OwnWrites",
    "OwnerIndex",
    "PodControl",
    "candidates",
    "claim",
    "controller_of",
    "controller_ref",
    "is_controlled_by",
    "pod_from",
    "slow_start",
]
