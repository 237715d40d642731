"""The annotations that number a deployment's versions and keep what sizes their sets were made for; new sets. Pure.

A set that is changed here is a new value: what the caches hold is shared.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sampan.api.int_or_string import MAX_INT32
from sampan.api.integers import parse_int64
from sampan.api.types.apps_v1 import Deployment, ReplicaSet, ReplicaSetSpec
from sampan.api.types.core_v1 import PodTemplateSpec
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.controllers.ownership.references import controller_ref
from sampan.controllers.ownership.revisions import template_hash
from sampan.controllers.workloads.deployment.limits import most_pods
from sampan.controllers.workloads.deployment.sets import HASH_LABEL, wanted

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
"""Of a set that was gone back to: the numbers it had before."""
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO = "deprecated.deployment.rollback.to"
NOT_COPIED = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MOST, ROLLBACK_TO}
)
_LONGEST_HISTORY = 2000
_LONGEST_NAME = 253


def number(text: str) -> int | None:
    """The number that an annotation's text is."""
    return parse_int64(text)


def revision_of(rs: ReplicaSet) -> int:
    """0 where there is none, or no number."""
    return number(rs.metadata.annotations.get(REVISION, "")) or 0


def count_of(rs: ReplicaSet, annotation: str) -> int | None:
    """A count that the set was annotated with."""
    found = parse_int64(rs.metadata.annotations.get(annotation, ""))
    return found if found is not None and 0 <= found <= MAX_INT32 else None


def highest(found: Iterable[ReplicaSet]) -> int:
    return max((revision_of(rs) for rs in found), default=0)


def last(found: Iterable[ReplicaSet]) -> int:
    """The second highest: that of the version before this one."""
    ordered = sorted((revision_of(rs) for rs in found), reverse=True)
    return ordered[1] if len(ordered) > 1 else 0


def annotated(rs: ReplicaSet, annotations: Mapping[str, str]) -> ReplicaSet:
    """The set with these annotations instead of its own; the same value if they are the same."""
    if annotations == rs.metadata.annotations:
        return rs
    metadata = msgspec.structs.replace(rs.metadata, annotations=dict(annotations))
    return msgspec.structs.replace(rs, metadata=metadata)


def sizes(deployment: Deployment) -> dict[str, str]:
    """What a set's size was decided by."""
    return {DESIRED: str(wanted(deployment)), MOST: str(most_pods(deployment))}


def resized(rs: ReplicaSet, replicas: int, deployment: Deployment) -> ReplicaSet:
    """The set with that size, and noted what for; the same value if that is so already."""
    changed = annotated(rs, {**rs.metadata.annotations, **sizes(deployment)})
    if replicas == rs.spec.replicas:
        return changed
    return msgspec.structs.replace(changed, spec=msgspec.structs.replace(rs.spec, replicas=replicas))


def brought_up_to_date(rs: ReplicaSet, deployment: Deployment, revision: int) -> ReplicaSet:
    """The set of the present template with the deployment's annotations, and its number if it has a lower one; the same
    value if that is so already."""
    changed = annotated(rs, _annotations(rs.metadata.annotations, deployment, revision))
    seconds = deployment.spec.minReadySeconds
    if seconds != rs.spec.minReadySeconds:
        changed = msgspec.structs.replace(changed, spec=msgspec.structs.replace(rs.spec, minReadySeconds=seconds))
    return changed


def _annotations(present: Mapping[str, str], deployment: Deployment, revision: int) -> dict[str, str]:
    copied = {key: text for key, text in deployment.metadata.annotations.items() if key not in NOT_COPIED}
    wanted = {**present, **copied}
    before = present.get(REVISION, "")
    old = number(before) if before else 0
    if old is None or old >= revision:
        return wanted
    wanted[REVISION] = str(revision)
    if before:
        wanted[HISTORY] = _history(present.get(HISTORY, ""), before)
    return wanted


def _history(present: str, before: str) -> str:
    """With the number that the set had until now; the first ones go where there are too many."""
    numbers = present.split(",") if present else []
    numbers.append(before)
    while len(",".join(numbers)) > _LONGEST_HISTORY and len(numbers) > 1:
        del numbers[0]
    return ",".join(numbers)


def set_name(deployment: str, hash: str) -> str:
    return f"{deployment[: _LONGEST_NAME - len(hash) - 1]}-{hash}"


def new_set(deployment: Deployment, replicas: int, revision: int) -> ReplicaSet:
    """The set of the present template. Its name follows from the template, so that it is made once."""
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
            ownerReferences=[controller_ref(deployment)],
        ),
        spec=ReplicaSetSpec(
            replicas=replicas,
            minReadySeconds=spec.minReadySeconds,
            selector=_with_hash(spec.selector, hash),
            template=template,
        ),
    )


def _with_hash(selector: LabelSelector | None, hash: str) -> LabelSelector:
    found: Any = selector or LabelSelector()
    return LabelSelector(matchLabels={**found.matchLabels, HASH_LABEL: hash}, matchExpressions=found.matchExpressions)


__all__ = [
    "DESIRED",
    "HISTORY",
    "MOST",
    "NOT_COPIED",
    "REVISION",
    "ROLLBACK_TO",
    "annotated",
    "brought_up_to_date",
    "count_of",
    "highest",
    "last",
    "new_set",
    "number",
    "resized",
    "revision_of",
    "set_name",
    "sizes",
]
