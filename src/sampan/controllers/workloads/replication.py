"""replicationcontroller-controller, which keeps the desired number of pods of each ReplicationController running."""

from functools import lru_cache

from sampan.api import labels
from sampan.api.types.core_v1 import ReplicationController, ReplicationControllerCondition
from sampan.controllers.descriptor import Parts
from sampan.controllers.workloads.replicas import ReplicaController, ReplicaKind


@lru_cache(maxsize=1024)
def _selecting(pairs: tuple[tuple[str, str], ...]) -> labels.Selector:
    return labels.from_labels(dict(pairs))


def _selector(owner: ReplicationController) -> labels.Selector:
    return _selecting(tuple(owner.spec.selector.items())) if owner.spec.selector else labels.NOTHING


KIND = ReplicaKind(
    name="replicationcontroller-controller",
    source="replication-controller",
    object_type=ReplicationController,
    kind="ReplicationController",
    selector=_selector,
    condition=ReplicationControllerCondition,
    has_terminating=False,
)


def make(parts: Parts) -> ReplicaController:
    return ReplicaController(kind=KIND, parts=parts)
