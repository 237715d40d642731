"""The ReplicaSets of a Deployment: the one of the current template, the old ones, and their revision and size
annotations, names and hashes. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sampan.api.semantics.owners import new_controller_ref
from sampan.api.semantics.workloads import desired_replicas
from sampan.api.types.apps_v1 import Deployment, ReplicaSet, ReplicaSetSpec
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.api.values.int_or_string import MAX_INT32, scale_int_or_percent
from sampan.api.values.integers import parse_int64
from sampan.controllers.ownership.revisions import template_hash

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
"""Annotation of a ReplicaSet that was rolled back to: its earlier revisions."""
DESIRED_REPLICAS_ANNOTATION = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS_ANNOTATION = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO = "deprecated.deployment.rollback.to"
NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED_REPLICAS_ANNOTATION,
        MAX_REPLICAS_ANNOTATION,
        ROLLBACK_TO,
    }
)
_MAX_HISTORY_LENGTH = 2000
_MAX_NAME_LENGTH = 253


def number(text: str) -> int | None:
    """Return the value of an annotation as a number, or None if it is not a number."""
    return parse_int64(text)


def revision_of(rs: ReplicaSet) -> int:
    """Return the revision, or 0 if the annotation is missing or invalid."""
    return number(rs.metadata.annotations.get(REVISION, "")) or 0


def count_of(rs: ReplicaSet, annotation: str) -> int | None:
    """Return a count annotation, or None if it is missing or invalid."""
    count = parse_int64(rs.metadata.annotations.get(annotation, ""))
    return count if count is not None and 0 <= count <= MAX_INT32 else None


def max_revision(replica_sets: Iterable[ReplicaSet]) -> int:
    return max((revision_of(rs) for rs in replica_sets), default=0)


def find_previous_revision(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return the second highest revision, which is that of the previous template."""
    ordered = sorted((revision_of(rs) for rs in replica_sets), reverse=True)
    return ordered[1] if len(ordered) > 1 else 0


def with_annotations(rs: ReplicaSet, annotations: Mapping[str, str]) -> ReplicaSet:
    """Return the ReplicaSet with these annotations; the same object if nothing changes."""
    if annotations == rs.metadata.annotations:
        return rs
    metadata = msgspec.structs.replace(rs.metadata, annotations=dict(annotations))
    return msgspec.structs.replace(rs, metadata=metadata)


def sizes(deployment: Deployment) -> dict[str, str]:
    """Return the annotations that record the Deployment's desired and maximum size."""
    return {
        DESIRED_REPLICAS_ANNOTATION: str(desired_replicas(deployment)),
        MAX_REPLICAS_ANNOTATION: str(max_replicas(deployment)),
    }


def resize_replica_set(rs: ReplicaSet, replicas: int, deployment: Deployment) -> ReplicaSet:
    """Return the ReplicaSet with that size and the size annotations; the same object if nothing changes."""
    changed = with_annotations(rs, {**rs.metadata.annotations, **sizes(deployment)})
    if replicas == rs.spec.replicas:
        return changed
    return msgspec.structs.replace(changed, spec=msgspec.structs.replace(rs.spec, replicas=replicas))


def update_annotations(rs: ReplicaSet, deployment: Deployment, revision: int) -> ReplicaSet:
    """Return the new ReplicaSet with the Deployment's annotations, minReadySeconds and, if higher, the revision.

    The same object is returned if nothing changes.
    """
    changed = with_annotations(rs, _annotations(rs.metadata.annotations, deployment, revision))
    seconds = deployment.spec.minReadySeconds
    if seconds != rs.spec.minReadySeconds:
        changed = msgspec.structs.replace(changed, spec=msgspec.structs.replace(rs.spec, minReadySeconds=seconds))
    return changed


def _annotations(present: Mapping[str, str], deployment: Deployment, revision: int) -> dict[str, str]:
    copied = {key: text for key, text in deployment.metadata.annotations.items() if key not in NOT_COPIED}
    annotations = {**present, **copied}
    before = present.get(REVISION, "")
    old = number(before) if before else 0
    if old is None or old >= revision:
        return annotations
    annotations[REVISION] = str(revision)
    if before:
        annotations[HISTORY] = _history(present.get(HISTORY, ""), before)
    return annotations


def _history(present: str, before: str) -> str:
    """Return the history with the previous revision appended; the oldest are dropped if it gets too long."""
    numbers = present.split(",") if present else []
    numbers.append(before)
    while len(",".join(numbers)) > _MAX_HISTORY_LENGTH and len(numbers) > 1:
        del numbers[0]
    return ",".join(numbers)


def replica_set_name(deployment: str, hash: str) -> str:
    return f"{deployment[: _MAX_NAME_LENGTH - len(hash) - 1]}-{hash}"


def new_replica_set(deployment: Deployment, replicas: int, revision: int) -> ReplicaSet:
    """Return the ReplicaSet of the current template. Its name derives from the template, so that it is created once."""
    spec, meta = deployment.spec, deployment.metadata
    hash = template_hash(spec.template, deployment.status.collisionCount)
    labels = {**spec.template.metadata.labels, HASH_LABEL: hash}
    template = PodTemplateSpec(
        metadata=msgspec.structs.replace(spec.template.metadata, labels=labels), spec=spec.template.spec
    )
    return ReplicaSet(
        metadata=ObjectMeta(
            name=replica_set_name(meta.name, hash),
            namespace=meta.namespace,
            labels=labels,
            annotations={**_annotations({}, deployment, revision), **sizes(deployment)},
            ownerReferences=[new_controller_ref(deployment)],
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            minReadySeconds=spec.minReadySeconds,
            selector=_with_hash(spec.selector, hash),
            template=template,
        ),
    )


def _with_hash(selector: LabelSelector | None, hash: str) -> LabelSelector:
    original: Any = selector or LabelSelector()
    return LabelSelector(
        matchLabels={**original.matchLabels, HASH_LABEL: hash}, matchExpressions=original.matchExpressions
    )


HASH_LABEL = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class ReplicaSets:
    new: ReplicaSet | None
    """The ReplicaSet with the Deployment's template; None if it is yet to be created."""
    old: Sequence[ReplicaSet]
    """The ReplicaSets of earlier templates, oldest first."""

    @property
    def all(self) -> list[ReplicaSet]:
        return [*self.old, self.new] if self.new is not None else list(self.old)

    @property
    def active_old(self) -> list[ReplicaSet]:
        return select_active(self.old)


def sort_replica_sets(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> ReplicaSets:
    """Return the ReplicaSets, split into the new one and the old ones. If several have the current template, the oldest
    is the new one."""
    ordered = sorted(replica_sets, key=age_key)
    template = deployment.spec.template
    new = next((rs for rs in ordered if is_same_template(rs.spec.template, template)), None)
    return ReplicaSets(new, [rs for rs in ordered if rs is not new])


def age_key(rs: ReplicaSet) -> tuple[str, str]:
    """Return a key that sorts ReplicaSets by age, oldest first."""
    return (rs.metadata.creationTimestamp or "", rs.metadata.name)


def is_same_template(pod_template_spec: PodTemplateSpec, other: PodTemplateSpec) -> bool:
    """Whether the templates are equal except for the pod-template-hash label."""
    return pod_template_spec.spec == other.spec and _strip_hash_label(pod_template_spec) == _strip_hash_label(other)


def _strip_hash_label(template: PodTemplateSpec) -> object:
    meta = template.metadata
    labels = {key: value for key, value in meta.labels.items() if key != HASH_LABEL}
    return msgspec.structs.replace(meta, labels=labels)


def size(rs: ReplicaSet) -> int:
    """Return the desired number of pods of the ReplicaSet."""
    return desired_replicas(rs)


def select_active(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the ReplicaSets with a desired size above 0."""
    return [rs for rs in replica_sets if size(rs) > 0]


def total_replicas(replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(size(rs) for rs in replica_sets)


def total_actual_replicas(replica_sets: Iterable[ReplicaSet]) -> int:
    """Return how many pods the ReplicaSets have, by their status."""
    return sum(rs.status.replicas for rs in replica_sets)


def total_available(replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(rs.status.availableReplicas for rs in replica_sets)


def total_terminating(replica_sets: Iterable[ReplicaSet]) -> int | None:
    """Return the number of terminating pods, or None if an observed ReplicaSet does not report it."""
    total = 0
    for rs in replica_sets:
        count = rs.status.terminatingReplicas
        if count is None and rs.status.observedGeneration != 0:
            return None
        total += count or 0
    return total


ROLLING, RECREATE = "RollingUpdate", "Recreate"


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == ROLLING


def resolve_fenceposts(deployment: Deployment) -> tuple[int, int]:
    """Return maxSurge (rounded up) and maxUnavailable (rounded down) in pods.

    If both are 0, one pod may be unavailable, as the update could not proceed otherwise.
    """
    update, replicas = deployment.spec.strategy.rollingUpdate, desired_replicas(deployment)
    surge = scale_int_or_percent((update and update.maxSurge) or 0, replicas, round_up=True)
    missing = scale_int_or_percent((update and update.maxUnavailable) or 0, replicas, round_up=False)
    return surge, missing if surge or missing else 1


def max_surge(deployment: Deployment) -> int:
    return resolve_fenceposts(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Deployment) -> int:
    replicas = desired_replicas(deployment)
    if not is_rolling(deployment) or not replicas:
        return 0
    return min(resolve_fenceposts(deployment)[1], replicas)


def max_replicas(deployment: Deployment) -> int:
    return desired_replicas(deployment) + max_surge(deployment)


def deadline_s(deployment: Deployment) -> int | None:
    """Return the progress deadline in seconds, or None if there is none."""
    seconds = deployment.spec.progressDeadlineSeconds
    return None if seconds == MAX_INT32 else seconds


def revision_history_limit(deployment: Deployment) -> int | None:
    """Return the revision history limit, or None if there is none."""
    limit = deployment.spec.revisionHistoryLimit
    return None if limit == MAX_INT32 else limit
