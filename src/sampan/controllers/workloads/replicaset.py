"""replicaset-controller, which keeps the desired number of pods of each ReplicaSet running."""

from sampan.api.labels import Selector
from sampan.api.types.apps_v1 import ReplicaSet, ReplicaSetCondition
from sampan.controllers.descriptor import Parts
from sampan.controllers.ownership.candidates import selector_or_nothing
from sampan.controllers.workloads.replicas import ReplicaController, ReplicaKind


def _selector(owner: ReplicaSet) -> Selector:
    return selector_or_nothing(owner.spec.selector)


KIND = ReplicaKind(
    name="replicaset-controller",
    source="replicaset-controller",
    object_type=ReplicaSet,
    kind="ReplicaSet",
    selector=_selector,
    condition=ReplicaSetCondition,
    has_terminating=True,
)


def make(parts: Parts) -> ReplicaController:
    return ReplicaController(kind=KIND, parts=parts)
