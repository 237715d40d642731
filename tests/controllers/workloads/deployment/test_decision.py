"""The next step of a Deployment."""

import pytest

from sampan.api.types.apps_v1 import ReplicaSet
from sampan.controllers.workloads.deployment.decision import RolloutStep, decide, surplus
from sampan.controllers.workloads.deployment.replicasets import REVISION, ROLLBACK_TO
from tests.controllers.ownership.objects import NOW, pod
from tests.controllers.workloads.deployment.objects import deployment, no_pods, replica_set


def sizes(step: RolloutStep) -> dict[str, int | None]:
    return {rs.metadata.uid: rs.spec.replicas for rs in step.changes}


def test_first_replicaset_has_all_replicas() -> None:
    step = decide(deployment(3), [], no_pods, NOW)
    assert step.create is not None
    assert step.create.spec.replicas == 3
    assert step.deployment.metadata.annotations[REVISION] == "1"
    status = step.deployment.status
    name = step.create.metadata.name
    assert [(condition.type, condition.reason, condition.message) for condition in status.conditions] == [
        ("Progressing", "NewReplicaSetCreated", f'Created new replica set "{name}"'),
        ("Available", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."),
    ]
    assert (status.observedGeneration, status.unavailableReplicas) == (1, 3)


def test_replicaset_of_a_new_template_is_limited_by_max_surge() -> None:
    step = decide(deployment(10, image="i:2"), [replica_set("old", 10, revision=4, desired=10)], no_pods, NOW)
    assert step.create is not None
    assert (step.create.spec.replicas, step.create.metadata.annotations[REVISION]) == (3, "5")


def test_paused_deployment_is_scaled_but_not_updated() -> None:
    paused = deployment(6, image="i:2", paused=True)
    step = decide(paused, [replica_set("old", 3, desired=3)], no_pods, NOW)
    assert step.create is None
    assert sizes(step) == {"old": 6}


def test_deployment_created_paused_creates_no_replicaset() -> None:
    step = decide(deployment(6, paused=True), [], no_pods, NOW)
    assert (step.create, step.changes) == (None, [])
    assert [condition.reason for condition in step.deployment.status.conditions] == [
        "DeploymentPaused",
        "MinimumReplicasUnavailable",
    ]


def test_scaling_precedes_the_rolling_update() -> None:
    step = decide(deployment(6, image="i:2"), [replica_set("old", 3, desired=3)], no_pods, NOW)
    assert (step.create, sizes(step)) == (None, {"old": 6})


def test_reverted_template_gives_the_old_replicaset_a_new_revision() -> None:
    replica_sets = [
        replica_set("a", 0, image="i:1", revision=1, desired=2),
        replica_set("b", 2, image="i:2", revision=2, desired=2),
    ]
    step = decide(deployment(2, annotations={REVISION: "2"}), replica_sets, no_pods, NOW)
    assert sizes(step) == {"a": 1}
    (changed,) = step.changes
    assert changed.metadata.annotations[REVISION] == "3"
    assert changed.metadata.annotations["deployment.kubernetes.io/revision-history"] == "1"
    assert step.deployment.metadata.annotations[REVISION] == "3"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        pytest.param({"replicas": 1, "updatedReplicas": 1}, "FoundNewReplicaSet", id="its pods were counted before"),
        pytest.param({}, "ReplicaSetUpdated", id="its pods are counted for the first time"),
    ],
)
def test_existing_replicaset_of_the_template_is_found(status: dict[str, int], reason: str) -> None:
    replica_sets = [replica_set("a", 1, image="i:1", desired=2, available=0)]
    step = decide(deployment(2, status=status), replica_sets, no_pods, NOW)
    assert (step.create, sizes(step)) == (None, {"a": 2})
    reasons = {condition.type: condition.reason for condition in step.deployment.status.conditions}
    assert reasons["Progressing"] == reason
    assert step.deployment.metadata.annotations[REVISION] == "1"


def test_recreate_waits_for_the_end_of_all_old_pods() -> None:
    new_deployment = deployment(2, image="i:2", strategy="Recreate")
    step = decide(new_deployment, [replica_set("old", 2, desired=2)], no_pods, NOW)
    assert (step.create, sizes(step)) == (None, {"old": 0})
    deleted = replica_set("old", 0, pods=1, desired=2)
    assert decide(new_deployment, [deleted], no_pods, NOW).create is None
    empty = replica_set("old", 0, pods=0, desired=2)
    assert decide(new_deployment, [empty], lambda sets: [pod("p")], NOW).create is None
    step = decide(new_deployment, [empty], no_pods, NOW)
    assert step.create is not None
    assert step.create.spec.replicas == 2


def test_deleted_deployment_only_updates_its_status() -> None:
    deleted = deployment(9)
    deleted.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"
    step = decide(deleted, [replica_set("old", 3, desired=3)], no_pods, NOW)
    assert (step.create, step.changes, step.deletions) == (None, (), ())
    assert step.deployment.status.replicas == 3


def test_complete_deployment_changes_nothing() -> None:
    first = decide(deployment(2), [replica_set("a", 2, image="i:1", desired=2)], no_pods, NOW)
    second = decide(first.deployment, [replica_set("a", 2, image="i:1", desired=2)], no_pods, NOW + 60)
    assert (second.deployment, second.changes, second.deletions) == (first.deployment, (), [])
    assert second.again_s is None


@pytest.mark.parametrize(
    ("revision", "template", "reason", "message"),
    [
        ("1", "i:0", "DeploymentRollback", 'Rolled back deployment "web" to revision 1'),
        ("0", "i:0", "DeploymentRollback", 'Rolled back deployment "web" to revision 1'),
        ("7", "i:1", "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."),
        (
            "2",
            "i:1",
            "DeploymentRollbackTemplateUnchanged",
            'The rollback revision contains the same template as current deployment "web"',
        ),
    ],
)
def test_rollback(revision: str, template: str, reason: str, message: str) -> None:
    replica_sets = [replica_set("a", 0, image="i:0", revision=1), replica_set("b", 2, image="i:1", revision=2)]
    step = decide(deployment(2, annotations={ROLLBACK_TO: revision}), replica_sets, no_pods, NOW)
    assert step.rollback is not None
    assert (step.rollback.reason, step.rollback.message) == (reason, message)
    after = step.rollback.deployment
    assert after.spec.template.spec.containers is not None
    assert after.spec.template.spec.containers[0].image == template
    assert ROLLBACK_TO not in after.metadata.annotations
    assert after.spec.template.metadata.labels == {"app": "web"}


def names(replica_sets: list[ReplicaSet]) -> list[str]:
    return [rs.metadata.uid for rs in replica_sets]


def test_old_replicasets_beyond_the_history_limit_are_surplus() -> None:
    sets = [replica_set(name, 0, revision=number) for name, number in (("c", 3), ("a", 1), ("b", 2))]
    assert names(surplus(deployment(revisionHistoryLimit=1), sets)) == ["a", "b"]
    assert names(surplus(deployment(revisionHistoryLimit=3), sets)) == []
    assert names(surplus(deployment(revisionHistoryLimit=0), sets)) == ["a", "b", "c"]
    assert names(surplus(deployment(revisionHistoryLimit=2**31 - 1), sets)) == []
    busy = [replica_set("a", 0, pods=1, revision=1), replica_set("b", 1, revision=2), *sets[:1]]
    assert names(surplus(deployment(revisionHistoryLimit=0), busy)) == ["c"]
