"""Builders of StatefulSets and their pods."""

from collections.abc import Sequence
from typing import Any

from sampan.api.types.apps_v1 import (
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
)
from sampan.api.types.core_v1 import (
    Container,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Pod,
    PodCondition,
    PodSpec,
    PodTemplateSpec,
    VolumeResourceRequirements,
)
from sampan.api.types.meta_v1 import LabelSelector, ObjectMeta
from sampan.api.values import times
from sampan.controllers.workloads.statefulset.identity import REVISION_LABEL, new_pod

NOW = 1_767_225_600.0
LABELS = {"app": "web"}


def template(image: str = "one") -> PodTemplateSpec:
    return PodTemplateSpec(
        metadata=ObjectMeta(labels=dict(LABELS)), spec=PodSpec(containers=[Container(name="c", image=image)])
    )


def stateful_set(
    replicas: int = 3,
    *,
    image: str = "one",
    policy: str = "OrderedReady",
    strategy: str = "RollingUpdate",
    partition: int = 0,
    max_unavailable: int | str | None = None,
    start: int = 0,
    claims: Sequence[str] = (),
    retention: tuple[str, str] = ("Retain", "Retain"),
    min_ready: int = 0,
    limit: int = 10,
    **meta: Any,
) -> StatefulSet:
    update = RollingUpdateStatefulSetStrategy(partition=partition, maxUnavailable=max_unavailable)
    rolling = update if strategy == "RollingUpdate" else None
    return StatefulSet(
        metadata=ObjectMeta(**{"name": "web", "namespace": "default", **meta}),
        spec=StatefulSetSpec(
            replicas=replicas,
            selector=LabelSelector(matchLabels=dict(LABELS)),
            template=template(image),
            serviceName="nginx",
            podManagementPolicy=policy,
            updateStrategy=StatefulSetUpdateStrategy(type=strategy, rollingUpdate=rolling),
            ordinals=StatefulSetOrdinals(start=start) if start else None,
            volumeClaimTemplates=[claim_template(name) for name in claims],
            persistentVolumeClaimRetentionPolicy=StatefulSetPersistentVolumeClaimRetentionPolicy(
                whenDeleted=retention[0], whenScaled=retention[1]
            ),
            minReadySeconds=min_ready,
            revisionHistoryLimit=limit,
        ),
    )


def claim_template(name: str) -> PersistentVolumeClaim:
    resources = VolumeResourceRequirements(requests={"storage": "1Gi"})
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeClaimSpec(accessModes=["ReadWriteOnce"], resources=resources),
    )


def member(
    sset: StatefulSet,
    ordinal: int,
    *,
    revision: str = "one",
    phase: str = "Running",
    is_ready: bool = True,
    ready_for_s: float = 100,
    is_deleted: bool = False,
) -> Pod:
    """A pod of the StatefulSet."""
    pod = new_pod(sset, sset.spec.template, revision, ordinal)
    pod.metadata.uid = f"uid-{ordinal}"
    pod.metadata.labels[REVISION_LABEL] = revision
    pod.metadata.deletionTimestamp = times.format_time(NOW) if is_deleted else None
    pod.status.phase = phase
    if is_ready and phase == "Running":
        since = times.format_time(NOW - ready_for_s)
        pod.status.conditions = [PodCondition(type="Ready", status="True", lastTransitionTime=since)]
    return pod
