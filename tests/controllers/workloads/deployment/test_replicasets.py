"""Revisions, annotations, names and limits of the ReplicaSets of a Deployment."""

import pytest

from sampan.api.types.apps_v1 import ReplicaSet
from sampan.controllers.workloads.deployment.replicasets import (
    DESIRED_REPLICAS_ANNOTATION,
    HISTORY,
    MAX_REPLICAS_ANNOTATION,
    REVISION,
    deadline_s,
    find_previous_revision,
    is_same_template,
    max_replicas,
    max_revision,
    max_surge,
    max_unavailable,
    new_replica_set,
    replica_set_name,
    resize_replica_set,
    revision_history_limit,
    sort_replica_sets,
    update_annotations,
)
from tests.controllers.workloads.deployment.objects import deployment, replica_set


def annotations(rs: ReplicaSet) -> dict[str, str]:
    return rs.metadata.annotations


def test_new_replica_set() -> None:
    new_deployment = deployment(
        10, annotations={"k": "v", REVISION: "7", "kubectl.kubernetes.io/last-applied-configuration": "x"}
    )
    replica_set = new_replica_set(new_deployment, 3, 8)
    hash = replica_set.metadata.labels["pod-template-hash"]
    assert replica_set.metadata.name == f"web-{hash}"
    assert replica_set.spec.selector is not None
    assert (
        replica_set.spec.selector.matchLabels
        == replica_set.spec.template.metadata.labels
        == replica_set.metadata.labels
    )
    assert annotations(replica_set) == {
        "k": "v",
        REVISION: "8",
        DESIRED_REPLICAS_ANNOTATION: "10",
        MAX_REPLICAS_ANNOTATION: "13",
    }
    assert (replica_set.spec.replicas, replica_set.metadata.ownerReferences[0].uid) == (3, "d")
    assert is_same_template(replica_set.spec.template, new_deployment.spec.template)
    assert "pod-template-hash" not in new_deployment.spec.template.metadata.labels


def test_a_hash_is_stable_and_changes_with_template_and_collisions() -> None:
    name = new_replica_set(deployment(), 1, 1).metadata.name
    assert new_replica_set(deployment(3, annotations={"a": "b"}), 2, 9).metadata.name == name
    assert new_replica_set(deployment(image="other"), 1, 1).metadata.name != name
    collided = deployment(status={"collisionCount": 1})
    assert new_replica_set(collided, 1, 1).metadata.name != name


def test_long_names_are_truncated() -> None:
    assert replica_set_name("a" * 253, "12345") == "a" * 247 + "-12345"
    assert replica_set_name("web", "12345") == "web-12345"


def test_oldest_replicaset_with_the_template_is_new() -> None:
    younger, older = replica_set("b", 1, image="i:1", age_s=5), replica_set("a", 1, image="i:1", age_s=9)
    other = replica_set("c", 1, image="i:2", age_s=7)
    replica_sets = sort_replica_sets(deployment(), [younger, other, older])
    assert replica_sets.new is older
    assert [rs.metadata.uid for rs in replica_sets.old] == ["c", "b"]
    assert sort_replica_sets(deployment(image="i:9"), [younger]).new is None


@pytest.mark.parametrize(
    ("before", "history", "revision", "expected"),
    [
        pytest.param("3", "", 3, {REVISION: "3"}, id="same revision"),
        pytest.param("5", "", 3, {REVISION: "5"}, id="higher revision"),
        pytest.param("1", "", 3, {REVISION: "3", HISTORY: "1"}, id="rolled back"),
        pytest.param("4", "1,2", 6, {REVISION: "6", HISTORY: "1,2,4"}, id="rolled back again"),
        pytest.param("x", "", 3, {REVISION: "x"}, id="not a number"),
        pytest.param(None, "", 3, {REVISION: "3"}, id="no revision"),
    ],
)
def test_revision_annotation_of_the_new_replicaset(
    before: str | None, history: str, revision: int, expected: dict[str, str]
) -> None:
    rs = replica_set("a", 1, revision=before)
    if history:
        rs.metadata.annotations[HISTORY] = history
    after = update_annotations(rs, deployment(), revision)
    assert annotations(after) == expected
    assert (after is rs) is (annotations(rs) == expected)


def test_long_revision_history_is_truncated_at_its_start() -> None:
    rs = replica_set("a", 1, revision=1001)
    rs.metadata.annotations[HISTORY] = ",".join(str(number) for number in range(100, 900))
    history = annotations(update_annotations(rs, deployment(), 1002))[HISTORY]
    assert len(history) <= 2000
    assert history.endswith(",899,1001")
    assert not history.startswith("100,")


def test_annotations_and_min_ready_seconds_are_copied_from_the_deployment() -> None:
    rs = replica_set("a", 1)
    after = update_annotations(rs, deployment(annotations={"k": "v"}, minReadySeconds=9), 1)
    assert annotations(after)["k"] == "v"
    assert after.spec.minReadySeconds == 9
    assert "k" not in annotations(rs)


def test_resized_replicaset_has_desired_and_max_replicas_annotations() -> None:
    rs = replica_set("a", 1)
    after = resize_replica_set(rs, 4, deployment(8))
    assert (
        after.spec.replicas,
        annotations(after)[DESIRED_REPLICAS_ANNOTATION],
        annotations(after)[MAX_REPLICAS_ANNOTATION],
    ) == (4, "8", "10")
    assert resize_replica_set(after, 4, deployment(8)) is after
    assert rs.spec.replicas == 1


def test_highest_and_second_highest_revision() -> None:
    replica_sets = [replica_set(str(number), 1, revision=number) for number in (3, 9, 7)]
    assert (max_revision(replica_sets), find_previous_revision(replica_sets)) == (9, 7)
    assert (max_revision([]), find_previous_revision(replica_sets[:1])) == (0, 0)


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (2, "0%", "1%", (0, 1)),
        (1, 0, "1%", (0, 1)),
        (2, "1%", "25%", (1, 0)),
        (4, 2, 3, (2, 3)),
        (4, 0, 9, (0, 4)),
        (0, "25%", "25%", (0, 0)),
        (10, "33%", "33%", (4, 3)),
    ],
)
def test_max_surge_and_max_unavailable_from_percentages(
    replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]
) -> None:
    new_deployment = deployment(replicas, surge=surge, unavailable=unavailable)
    assert (max_surge(new_deployment), max_unavailable(new_deployment)) == expected
    assert max_replicas(new_deployment) == replicas + expected[0]


def test_recreate_has_no_surge_and_no_unavailable_pods() -> None:
    new_deployment = deployment(10, strategy="Recreate")
    assert (max_surge(new_deployment), max_unavailable(new_deployment)) == (0, 0)


def test_max_int32_deadline_and_history_limit_mean_unlimited() -> None:
    new_deployment = deployment(deadline=2**31 - 1, revisionHistoryLimit=2**31 - 1)
    assert (deadline_s(new_deployment), revision_history_limit(new_deployment)) == (None, None)
    assert deadline_s(deployment(deadline=5)) == 5
