"""The rules that a history is held to do find what is wrong."""

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


def owned(uid: str, kind: str, owner: str, *, index: str = "", target: str = "", **status: Any) -> Pod:
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


def other(kind: str, uid: str, owner: str = "", **spec: Any) -> Any:
    references = [{"kind": "Deployment", "uid": owner, "name": owner, "controller": True}] if owner else []
    value = {"metadata": {"name": uid, "uid": uid, "ownerReferences": references}, "spec": spec}
    return codec.from_value(value, _KINDS[kind])


def broken(*changes: tuple[str, Any]) -> Sequence[str]:
    return list(Rules().broken([Change(at, type, obj) for at, (type, obj) in enumerate(changes)]))


RUNNING: dict[str, Any] = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
SET, JOB = other("replicaset", "r", replicas=1), other("job", "j", parallelism=2)
UPDATE = {"rollingUpdate": {"maxSurge": 1}}


@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ([(ADDED, SET), (ADDED, owned("a", "ReplicaSet", "r"))], 0),
        ([(ADDED, SET), (ADDED, owned("a", "ReplicaSet", "r")), (ADDED, owned("b", "ReplicaSet", "r"))], 1),
        (
            [
                (ADDED, SET),
                (ADDED, owned("a", "ReplicaSet", "r")),
                (MODIFIED, owned("a", "ReplicaSet", "r", phase="Failed")),
                (ADDED, owned("b", "ReplicaSet", "r")),
            ],
            0,
        ),
        ([(ADDED, JOB), *((ADDED, owned(uid, "Job", "j")) for uid in "abc")], 1),
        ([(ADDED, JOB), *((ADDED, owned(uid, "Job", "j", index="0")) for uid in "ab")], 1),
        ([(ADDED, owned(uid, "DaemonSet", "d", target="n")) for uid in "ab"], 1),
        ([(ADDED, owned(uid, "DaemonSet", "d", target=uid)) for uid in "ab"], 0),
        (
            [
                (ADDED, other("deployment", "d", replicas=2, strategy=UPDATE)),
                (ADDED, other("replicaset", "r1", "d", replicas=2)),
                (ADDED, other("replicaset", "r2", "d", replicas=1)),
            ],
            0,
        ),
        (
            [
                (ADDED, other("deployment", "d", replicas=2, strategy=UPDATE)),
                (ADDED, other("replicaset", "r1", "d", replicas=2)),
                (ADDED, other("replicaset", "r2", "d", replicas=2)),
            ],
            1,
        ),
        ([(ADDED, other("node", "n")), (DELETED, owned("a", "StatefulSet", "s", target="n", **RUNNING))], 1),
        ([(DELETED, owned("a", "StatefulSet", "s", target="n", **RUNNING))], 0),
    ],
)
def test_rules(changes: Sequence[tuple[str, Any]], faults: int) -> None:
    assert len(broken(*changes)) == faults
