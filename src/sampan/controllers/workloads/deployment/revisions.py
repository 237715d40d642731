"""Revision and size annotations of ReplicaSets, and the construction of new ones. Pure.

Changed ReplicaSets are new values, as cached objects are shared.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sampan.api.int_or_string import MAX_INT32
from sampan.api.integers import parse_int64
from sampan.api.semantics.owners import new_controller_ref
from sampan.api.types.apps_v1 import Deployment, ReplicaSet, ReplicaSetSpec
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.controllers.ownership.revisions import template_hash
from sampan.controllers.workloads.deployment.limits import most_pods
from sampan.controllers.workloads.deployment.sets import HASH_LABEL, wanted

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
"""Annotation of a ReplicaSet that was rolled back to: its earlier revisions."""
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO = "deprecated.deployment.rollback.to"
NOT_COPIED = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MOST, ROLLBACK_TO}
)
_LONGEST_HISTORY = 2000
_LONGEST_NAME = 253


def number(text: str) -> int | None:
    """Return the annotation as a number, or None if it is none."""
    return parse_int64(text)


def revision_of(rs: ReplicaSet) -> int:
    """Return the revision, or 0 if the annotation is missing or invalid."""
    return number(rs.metadata.annotations.get(REVISION, "")) or 0


def count_of(rs: ReplicaSet, annotation: str) -> int | None:
    """Return a count annotation, or None if it is missing or invalid."""
    count = parse_int64(rs.metadata.annotations.get(annotation, ""))
    return count if count is not None and 0 <= count <= MAX_INT32 else None


def highest(found: Iterable[ReplicaSet]) -> int:
    return max((revision_of(rs) for rs in found), default=0)


def last(found: Iterable[ReplicaSet]) -> int:
    """Return the second highest revision, which is that of the previous template."""
    ordered = sorted((revision_of(rs) for rs in found), reverse=True)
    return ordered[1] if len(ordered) > 1 else 0


def annotated(rs: ReplicaSet, annotations: Mapping[str, str]) -> ReplicaSet:
    """Return the ReplicaSet with these annotations; the same object if nothing changes."""
    if annotations == rs.metadata.annotations:
        return rs
    metadata = msgspec.structs.replace(rs.metadata, annotations=dict(annotations))
    return msgspec.structs.replace(rs, metadata=metadata)


def sizes(deployment: Deployment) -> dict[str, str]:
    """Return the annotations that record the Deployment's desired and maximum size."""
    return {DESIRED: str(wanted(deployment)), MOST: str(most_pods(deployment))}


def resized(rs: ReplicaSet, replicas: int, deployment: Deployment) -> ReplicaSet:
    """Return the ReplicaSet with that size and the size annotations; the same object if nothing changes."""
    changed = annotated(rs, {**rs.metadata.annotations, **sizes(deployment)})
    if replicas == rs.spec.replicas:
        return changed
    return msgspec.structs.replace(changed, spec=msgspec.structs.replace(rs.spec, replicas=replicas))


def brought_up_to_date(rs: ReplicaSet, deployment: Deployment, revision: int) -> ReplicaSet:
    """Return the new ReplicaSet with the Deployment's annotations, minReadySeconds and, if higher, the revision.

    The same object is returned if nothing changes.
    """
    changed = annotated(rs, _annotations(rs.metadata.annotations, deployment, revision))
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
    while len(",".join(numbers)) > _LONGEST_HISTORY and len(numbers) > 1:
        del numbers[0]
    return ",".join(numbers)


def set_name(deployment: str, hash: str) -> str:
    return f"{deployment[: _LONGEST_NAME - len(hash) - 1]}-{hash}"


def new_set(deployment: Deployment, replicas: int, revision: int) -> ReplicaSet:
    """Return the ReplicaSet of the current template. Its name derives from the template, so that it is created once."""
    spec, meta = deployment.spec, deployment.metadata
    hash = template_hash(spec.template, deployment.status.collisionCount)
    labels = {**spec.template.metadata.labels, HASH_LABEL: hash}
    template = PodTemplateSpec(
        metadata=msgspec.structs.replace(spec.template.metadata, labels=labels), spec=spec.template.spec
    )
    return ReplicaSet(
        metadata=ObjectMeta(
            name=set_name(meta.name, hash),
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
