"""The ReplicaSets of a Deployment: that of its current template, the old ones, and their totals. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.core_v1 import PodTemplateSpec

HASH_LABEL = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class Sets:
    new: ReplicaSet | None
    """The ReplicaSet with the Deployment's template; None if it is yet to be created."""
    old: Sequence[ReplicaSet]
    """The others, oldest first."""

    @property
    def all(self) -> list[ReplicaSet]:
        return [*self.old, self.new] if self.new is not None else list(self.old)

    @property
    def active_old(self) -> list[ReplicaSet]:
        return active(self.old)


def sort_out(deployment: Deployment, found: Iterable[ReplicaSet]) -> Sets:
    """Return the ReplicaSets. If several have the current template, the oldest is the new one."""
    ordered = sorted(found, key=age_key)
    template = deployment.spec.template
    new = next((rs for rs in ordered if is_same_template(rs.spec.template, template)), None)
    return Sets(new, [rs for rs in ordered if rs is not new])


def age_key(rs: ReplicaSet) -> tuple[str, str]:
    """Return a key that sorts ReplicaSets by age, oldest first."""
    return (rs.metadata.creationTimestamp or "", rs.metadata.name)


def is_same_template(one: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Whether the templates are equal except for the pod-template-hash label."""
    return one.spec == other.spec and _unmarked(one) == _unmarked(other)


def _unmarked(template: PodTemplateSpec) -> object:
    meta = template.metadata
    labels = {key: value for key, value in meta.labels.items() if key != HASH_LABEL}
    return msgspec.structs.replace(meta, labels=labels)


def size(rs: ReplicaSet) -> int:
    """Return the desired number of pods of the ReplicaSet."""
    return 1 if rs.spec.replicas is None else rs.spec.replicas


def wanted(deployment: Deployment) -> int:
    """Return the desired number of pods of the Deployment."""
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def active(found: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the ReplicaSets with a desired size above 0."""
    return [rs for rs in found if size(rs) > 0]


def total_size(found: Iterable[ReplicaSet]) -> int:
    return sum(size(rs) for rs in found)


def total_pods(found: Iterable[ReplicaSet]) -> int:
    """Return the actual number of pods."""
    return sum(rs.status.replicas for rs in found)


def total_available(found: Iterable[ReplicaSet]) -> int:
    return sum(rs.status.availableReplicas for rs in found)


def total_terminating(found: Iterable[ReplicaSet]) -> int | None:
    """Return the number of terminating pods, or None if an observed ReplicaSet does not report it."""
    total = 0
    for rs in found:
        count = rs.status.terminatingReplicas
        if count is None and rs.status.observedGeneration != 0:
            return None
        total += count or 0
    return total
