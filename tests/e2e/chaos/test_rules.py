"""The rules of chaos tests detect violations in a recorded history."""

from collections.abc import Sequence
from typing import Any

import pytest

from sampan.api.codec import json as codec
from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.api.types.batch_v1 import Job
from sampan.api.types.core_v1 import Node, Pod
from sampan.machinery.client import ADDED, DELETED, MODIFIED
from tests.e2e.chaos.history import Change, Rules

_KINDS: dict[str, type[Any]] = {"deployment": Deployment, "replicaset": ReplicaSet, "job": Job, "node": Node}


def owned_pod(uid: str, kind: str, owner: str, *, index: str = "", target: str = "", **status: Any) -> Pod:
    annotations = {"batch.kubernetes.io/job-completion-index": index} if index else {}
    reference = {"kind": kind, "uid": owner, "name": owner, "controller": True}
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [target]}]}
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}
    value = {
        "metadata": {"name": uid, "uid": uid, "annotations": annotations, "ownerReferences": [reference]},
        "spec": {"affinity": {"nodeAffinity": node_affinity}, "nodeName": target},
        "status": status,
    }
    return codec.from_value(value, Pod)


def workload(kind: str, uid: str, owner: str = "", **spec: Any) -> Any:
    references = [{"kind": "Deployment", "uid": owner, "name": owner, "controller": True}] if owner else []
    value = {"metadata": {"name": uid, "uid": uid, "ownerReferences": references}, "spec": spec}
    return codec.from_value(value, _KINDS[kind])


def violations(*changes: tuple[str, Any]) -> Sequence[str]:
    return list(Rules().violations([Change(at, type, obj) for at, (type, obj) in enumerate(changes)]))


RUNNING: dict[str, Any] = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
SET, JOB = workload("replicaset", "r", replicas=1), workload("job", "j", parallelism=2)
UPDATE = {"rollingUpdate": {"maxSurge": 1}}


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ([(ADDED, SET), (ADDED, owned_pod("a", "ReplicaSet", "r"))], 0),
        ([(ADDED, SET), (ADDED, owned_pod("a", "ReplicaSet", "r")), (ADDED, owned_pod("b", "ReplicaSet", "r"))], 1),
        (
            [
                (ADDED, SET),
                (ADDED, owned_pod("a", "ReplicaSet", "r")),
                (MODIFIED, owned_pod("a", "ReplicaSet", "r", phase="Failed")),
                (ADDED, owned_pod("b", "ReplicaSet", "r")),
            ],
            0,
        ),
        ([(ADDED, JOB), *((ADDED, owned_pod(uid, "Job", "j")) for uid in "abc")], 1),
        ([(ADDED, JOB), *((ADDED, owned_pod(uid, "Job", "j", index="0")) for uid in "ab")], 1),
        ([(ADDED, owned_pod(uid, "DaemonSet", "d", target="n")) for uid in "ab"], 1),
        ([(ADDED, owned_pod(uid, "DaemonSet", "d", target=uid)) for uid in "ab"], 0),
        (
            [
                (ADDED, workload("deployment", "d", replicas=2, strategy=UPDATE)),
                (ADDED, workload("replicaset", "r1", "d", replicas=2)),
                (ADDED, workload("replicaset", "r2", "d", replicas=1)),
            ],
            0,
        ),
        (
            [
                (ADDED, workload("deployment", "d", replicas=2, strategy=UPDATE)),
                (ADDED, workload("replicaset", "r1", "d", replicas=2)),
                (ADDED, workload("replicaset", "r2", "d", replicas=2)),
            ],
            1,
        ),
        ([(ADDED, workload("node", "n")), (DELETED, owned_pod("a", "StatefulSet", "s", target="n", **RUNNING))], 1),
        ([(DELETED, owned_pod("a", "StatefulSet", "s", target="n", **RUNNING))], 0),
    ],
    ids=[
        "ReplicaSet with desired pods",
        "ReplicaSet with a pod too many",
        "ReplicaSet with a replaced failed pod",
        "Job above parallelism",
        "Job with two pods of one index",
        "DaemonSet with two pods on a node",
        "DaemonSet with one pod on each node",
        "Deployment within maxSurge",
        "Deployment above maxSurge",
        "StatefulSet pod deleted while it runs",
        "StatefulSet pod deleted with its node",
    ],
)
def test_rules_detect_violations_in_a_history(changes: Sequence[tuple[str, Any]], faults: int) -> None:
    assert len(violations(*changes)) == faults
