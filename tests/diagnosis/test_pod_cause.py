"""The cause of the creation of a pod, for each kind of owner and each kind of cause."""

from typing import Any

import pytest

from sampan.diagnosis.pod_cause import OwnerRecords, describe_cause, find_cause

ACCOUNT = "system:serviceaccount:kube-system:"
NODE = "system:node:node-0"
Record = dict[str, Any]


def make_record(time: float, action: str, subject: str, actor: str, **fields: Any) -> Record:
    fields = {"outcome": "200", "number": int(time * 1000), **fields}
    return {"component": "apiserver", "time": time, "action": action, "subject": subject, "actor": actor, **fields}


def pod(time: float, name: str, controller: str = "replicaset") -> Record:
    return make_record(time, "create", f"pods/ns/{name}", f"{ACCOUNT}{controller}-controller", uid=name)


def deletion(time: float, name: str, actor: str = "admin") -> Record:
    return make_record(time, "delete", f"pods/ns/{name}", actor, uid=name)


def report(time: float, name: str, state: str) -> Record:
    return make_record(time, "patch", f"pods/ns/{name}/status", NODE, uid=name, state=state)


def replicas(time: float, generation: int) -> Record:
    actor = f"{ACCOUNT}deployment-controller"
    return make_record(
        time, "create" if generation == 1 else "update", "replicasets.apps/ns/web-1", actor, generation=generation
    )


def deployment(time: float, generation: int, actor: str = "admin", action: str = "patch") -> Record:
    return make_record(time, action, "deployments.apps/ns/web", actor, generation=generation)


CREATED = [deployment(1, 1, action="create"), deployment(1.2, 1, f"{ACCOUNT}deployment-controller", "update")]
FIRST = [pod(1.1, "web-1-a"), report(1.2, "web-1-a", "Running, ready")]
EVICTION = make_record(50, "create", "pods/ns/web-1-a/eviction", "drainer", uid="web-1-a", outcome="201")


def test_creation_of_a_deployment_causes_its_first_pods() -> None:
    causes = find_cause(pod(1.1, "web-1-a"), [OwnerRecords([replicas(1.05, 1)], []), OwnerRecords(CREATED, [])])
    assert [cause["time"] for cause in causes] == [1, 1.05]


@pytest.mark.parametrize(
    ("removal", "name"),
    [
        (deletion(50, "web-1-a"), "delete the previous pod"),
        (deletion(50, "web-1-a", f"{ACCOUNT}taint-eviction-controller"), "delete the previous pod"),
        (EVICTION, "evict the previous pod"),
        (report(50, "web-1-a", "Failed, Evicted"), "previous pod failed"),
        (make_record(50, "deletecollection", "pods/ns", "admin"), "deletecollection pods"),
    ],
)
def test_removal_of_a_pod_causes_its_replacement(removal: Record, name: str) -> None:
    removed = OwnerRecords([replicas(1.05, 1)], [*FIRST, removal, deletion(50.2, "web-1-a", NODE)])
    causes = find_cause(pod(50.1, "web-1-b"), [removed, OwnerRecords(CREATED, [])])
    assert [(cause["time"], describe_cause(cause)) for cause in causes] == [(50, name)]


def test_end_of_an_earlier_deletion_is_not_taken_for_the_cause() -> None:
    owned = [*FIRST, deletion(50, "web-1-a"), deletion(60, "web-1-b"), deletion(60.05, "web-1-a", NODE)]
    causes = find_cause(pod(60.1, "web-1-d"), [OwnerRecords([], owned)])
    assert [cause["uid"] for cause in causes] == ["web-1-b"]


@pytest.mark.parametrize("outcome", ["429 TooManyRequests", "200 dry run"])
def test_request_without_effect_causes_nothing(outcome: str) -> None:
    owners = [OwnerRecords([], [*FIRST, {**EVICTION, "outcome": outcome}])]
    assert find_cause(pod(50.1, "web-1-b"), owners) == []


def test_scaling_and_rollouts_begin_with_the_change_of_the_deployment() -> None:
    scaled = make_record(50, "patch", "deployments.apps/ns/web/scale", "hpa")
    owners = [
        OwnerRecords([replicas(1.05, 1), replicas(50.1, 2)], [*FIRST, deletion(40, "web-1-a")]),
        OwnerRecords([*CREATED, scaled], []),
    ]
    causes = find_cause(pod(50.2, "web-1-b"), owners)
    assert [describe_cause(cause) for cause in causes] == ["patch deployments scale", "update replicasets"]
    assert causes[0] is scaled


def test_change_that_leaves_the_spec_alone_causes_nothing() -> None:
    owners = [
        OwnerRecords([replicas(50.1, 2)], []),
        OwnerRecords([*CREATED, deployment(50, 2), deployment(50.05, 2, "annotator")], []),
    ]
    assert [cause["actor"] for cause in find_cause(pod(50.2, "web-1-b"), owners)][:1] == ["admin"]


def test_pod_of_a_stateful_set_follows_the_final_deletion_of_the_one_with_its_name() -> None:
    owned = [
        pod(1, "db-0", "statefulset"),
        deletion(50, "db-0"),
        deletion(51, "db-1"),
        deletion(55, "db-0", NODE),
    ]
    created = make_record(0.5, "create", "statefulsets.apps/ns/db", "admin", generation=1)
    replacement = {**pod(55.1, "db-0", "statefulset"), "uid": "new"}
    causes = find_cause(replacement, [OwnerRecords([created], owned)])
    assert [(cause["time"], describe_cause(cause)) for cause in causes] == [
        (50, "delete the previous pod"),
        (55, "remove the previous pod"),
    ]


def test_pod_that_its_controller_has_deleted_leads_back_to_the_change_of_the_owner() -> None:
    controller = f"{ACCOUNT}statefulset-controller"
    own = [
        make_record(0.5, "create", "statefulsets.apps/ns/db", "admin", generation=1),
        make_record(50, "patch", "statefulsets.apps/ns/db", "admin", generation=2),
    ]
    owned = [pod(1, "db-0", "statefulset"), deletion(50.1, "db-0", controller), deletion(55, "db-0", NODE)]
    causes = find_cause({**pod(55.1, "db-0", "statefulset"), "uid": "new"}, [OwnerRecords(own, owned)])
    assert [cause["time"] for cause in causes] == [50, 50.1, 55]


def test_next_pod_of_a_job_follows_the_end_of_the_one_before() -> None:
    created = make_record(0.5, "create", "jobs.batch/ns/sum", "admin", generation=1)
    owned = [pod(1, "sum-a", "job"), report(30, "sum-a", "Failed, main: Error")]
    causes = find_cause(pod(40, "sum-b", "job"), [OwnerRecords([created], owned)])
    assert [describe_cause(cause) for cause in causes] == ["previous pod failed"]
