"""Deployments and ReplicaSets: rules that the golden replay does not cover."""

from typing import Any

import pytest

from sampan.api.types.apps_v1 import Deployment, ReplicaSet
from sampan.apiserver.registry.kinds import deployments, replicasets
from sampan.machinery.errors import ApiError
from tests.apiserver.registry.kind_rules import LABELS, NOW, Rules, template

SPEC = {"selector": {"matchLabels": LABELS}, "template": template()}
RULES = Rules(deployments.BEHAVIOR, Deployment, SPEC)
REPLICA_SET_RULES = Rules(replicasets.BEHAVIOR, ReplicaSet, SPEC)
ROLLBACK = "deprecated.deployment.rollback.to"
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


def rolling_update(**amounts: Any) -> dict[str, Any]:
    return {"strategy": {"rollingUpdate": amounts}}


AT = "spec.strategy.rollingUpdate"


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        ({}, []),
        (rolling_update(maxUnavailable=""), [f'{AT}.maxUnavailable: Invalid value: "": {PERCENT}']),
        (rolling_update(maxUnavailable="-5%"), [f'{AT}.maxUnavailable: Invalid value: "-5%": {PERCENT}']),
        (
            rolling_update(maxUnavailable=-1, maxSurge=-2),
            [
                f"{AT}.maxUnavailable: Invalid value: -1: must be greater than or equal to 0",
                f"{AT}.maxSurge: Invalid value: -2: must be greater than or equal to 0",
            ],
        ),
        (
            rolling_update(maxUnavailable="0%", maxSurge="0%"),
            [f'{AT}.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0'],
        ),
        (rolling_update(maxUnavailable=1, maxSurge="500%"), []),
        (
            {"strategy": {"type": "Odd", "rollingUpdate": {"maxSurge": 1}}},
            [
                'spec.strategy: Unsupported value: {"Type":"Odd","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":1}}: '
                'supported values: "Recreate", "RollingUpdate"'
            ],
        ),
        (
            {"template": template({"ephemeralContainers": [{"name": "e", "image": "x"}]})},
            ["spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"],
        ),
    ],
)
def test_errors_of_new_objects(spec: dict[str, Any], faults: list[str]) -> None:
    assert RULES.faults(spec) == faults


def test_all_errors_are_reported_in_the_order_of_kube_apiserver() -> None:
    spec = {
        "replicas": -1,
        "selector": {"matchLabels": {"app": "b"}},
        "template": template({"restartPolicy": "Never", "activeDeadlineSeconds": 1, "containers": []}),
        "strategy": {"type": "Odd"},
        "minReadySeconds": -1,
        "revisionHistoryLimit": -1,
        "progressDeadlineSeconds": -1,
    }
    fields = [fault.partition(":")[0] for fault in RULES.faults(spec, annotations={ROLLBACK: "-1"})]
    assert fields == [
        "spec.replicas",
        "spec.template.metadata.labels",
        "spec.template.spec.containers",
        "spec.template.spec.restartPolicy",
        "spec.template.spec.activeDeadlineSeconds",
        "spec.strategy",
        "spec.minReadySeconds",
        "spec.revisionHistoryLimit",
        "spec.rollback.version",
        "spec.progressDeadlineSeconds",
        "spec.progressDeadlineSeconds",
    ]


def test_generation_counts_changes_of_spec_and_deployment_annotations() -> None:
    old = RULES.create()
    same, _ = RULES.update(old, labels={"a": "b"})
    annotated, _ = RULES.update(old, annotations={"a": "b"})
    scaled, _ = RULES.update(old, {"replicas": 3})
    assert [deployment.metadata.generation for deployment in (old, same, annotated, scaled)] == [1, 1, 2, 2]
    annotated_set, _ = REPLICA_SET_RULES.update(REPLICA_SET_RULES.create(), annotations={"a": "b"})
    assert annotated_set.metadata.generation == 1


@pytest.mark.parametrize("rules", [RULES, REPLICA_SET_RULES])
def test_selector_is_immutable(rules: Rules) -> None:
    wider = {"selector": {"matchLabels": {**LABELS, "b": "c"}}}
    _, faults = rules.update(rules.create(), {**wider, "template": template(labels={**LABELS, "b": "c"})})
    assert faults == ['spec.selector: Invalid value: {"matchLabels":{"app":"a","b":"c"}}: field is immutable']


def test_status_subresource_writes_status_and_keeps_labels_of_deployment() -> None:
    old = RULES.create(labels={"a": "b"})
    put, _ = RULES.update(old, {"replicas": 2})
    assert put.status == old.status
    reported, faults = RULES.update_status(old, {"replicas": 2, "readyReplicas": 1}, labels={}, annotations={"x": "y"})
    assert faults == []
    assert (reported.status.readyReplicas, reported.metadata.labels) == (1, {"a": "b"})
    assert (reported.metadata.annotations, reported.metadata.generation) == ({"x": "y"}, 1)
    labelled, _ = REPLICA_SET_RULES.update_status(REPLICA_SET_RULES.create(), {"replicas": 1}, labels={"x": "y"})
    assert labelled.metadata.labels == {"x": "y"}


@pytest.mark.parametrize(
    ("status", "faults"),
    [
        ({"collisionCount": 2}, []),
        ({}, ["status.collisionCount: Invalid value: 0: cannot be decremented"]),
        (
            {"collisionCount": -1, "terminatingReplicas": -2, "observedGeneration": -3},
            [
                "status.observedGeneration: Invalid value: -3: must be greater than or equal to 0",
                "status.terminatingReplicas: Invalid value: -2: must be greater than or equal to 0",
                "status.collisionCount: Invalid value: -1: must be greater than or equal to 0",
                "status.collisionCount: Invalid value: -1: cannot be decremented",
            ],
        ),
    ],
)
def test_errors_of_a_status(status: dict[str, Any], faults: list[str]) -> None:
    old, _ = RULES.update_status(RULES.create(), {"collisionCount": 1})
    assert RULES.update_status(old, status)[1] == faults


def test_warnings() -> None:
    duplicate_port = {
        "containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 80}, {"containerPort": 80}]}]
    }
    port = (
        "spec.template.spec.containers[0].ports[1]: duplicate port definition with "
        "spec.template.spec.containers[0].ports[0]"
    )
    spec = {"template": template(duplicate_port)}
    name = (
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label "
        "is recommended: [must not contain dots]"
    )
    assert RULES.warnings() == []
    assert RULES.warnings(spec, name="a.b") == [name, port]
    old = RULES.create(spec, name="a.b")
    assert RULES.warnings(spec, old=old, name="a.b", labels={"x": "y"}) == []
    assert RULES.warnings({**spec, "replicas": 2}, old=old, name="a.b") == [port]


def test_deprecated_rollback_annotation_must_be_a_number() -> None:
    assert RULES.create(annotations={ROLLBACK: "+07"}).metadata.annotations == {ROLLBACK: "7"}
    start = 'Deployment in version "v1" cannot be handled as a Deployment: strconv.ParseInt: parsing'
    for text, why in (("x", "invalid syntax"), ("9" * 20, "value out of range"), ("", "invalid syntax")):
        with pytest.raises(ApiError) as rejection:
            RULES.create(annotations={ROLLBACK: text})
        assert rejection.value.message == f'{start} "{text}": {why}'


def test_table_cells() -> None:
    status = {"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}
    containers = {"containers": [{"name": "c", "image": "x"}, {"name": "d", "image": "y:1"}]}
    spec = {"replicas": 4, "template": template(containers)}
    updated, _ = RULES.update_status(RULES.create(spec), status)
    assert RULES.cells(updated, NOW + 90) == ["a", "2/4", 3, 1, "90s", "c,d", "x,y:1", "app=a"]
    replica_set, _ = REPLICA_SET_RULES.update_status(
        REPLICA_SET_RULES.create(spec), {"replicas": 3, "readyReplicas": 2}
    )
    assert REPLICA_SET_RULES.cells(replica_set, NOW) == ["a", 4, 3, 2, "0s", "c,d", "x,y:1", "app=a"]
