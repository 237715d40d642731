"""StatefulSets: rules that the golden replay does not cover."""

import re
from typing import Any

import pytest

from sampan.api.feature_gates import FeatureGates
from sampan.api.types.apps_v1 import StatefulSet
from sampan.apiserver.registry.kinds import statefulsets
from tests.apiserver.registry.kind_rules import LABELS, Rules, template

SPEC = {"selector": {"matchLabels": LABELS}, "template": template()}
RULES = Rules(statefulsets.BEHAVIOR, StatefulSet, SPEC)


def claim(name: str = "data", storage: str = "1Gi", **spec: Any) -> dict[str, Any]:
    claim_spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}, **spec}
    return {"metadata": {"name": name}, "spec": claim_spec}


def template_with_mounts(*names: str, **spec: Any) -> dict[str, Any]:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return template({"containers": [{"name": "c", "image": "x", "volumeMounts": mounts}], **spec})


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ({}, {"type": "RollingUpdate", "partition": 0}),
        ({"type": "RollingUpdate"}, {"type": "RollingUpdate", "partition": None}),
        ({"rollingUpdate": {"partition": 3}}, {"type": "RollingUpdate", "partition": 3}),
        ({"type": "OnDelete"}, {"type": "OnDelete", "partition": None}),
    ],
)
def test_defaults_of_the_update_strategy(strategy: dict[str, Any], expected: dict[str, Any]) -> None:
    update_strategy = RULES.create({"updateStrategy": strategy}).spec.updateStrategy
    partition = update_strategy.rollingUpdate.partition if update_strategy.rollingUpdate is not None else None
    assert {"type": update_strategy.type, "partition": partition} == expected


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        ({"volumeClaimTemplates": [claim()], "template": template_with_mounts("data")}, []),
        (
            {"volumeClaimTemplates": [claim()], "template": template_with_mounts("data", "other")},
            ['spec.template.spec.containers[0].volumeMounts[1].name: Not found: "other"'],
        ),
        (
            {"volumeClaimTemplates": [claim(accessModes=[], storageClassName="A")]},
            [
                "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
                'spec.volumeClaimTemplates[0].spec.storageClassName: Invalid value: "A": a lowercase RFC 1123 '
                "subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
                "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        ({"template": template({"hostname": "No_Host", "subdomain": "No_Domain"})}, []),
        (
            {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}},
            [
                'spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":0,"MaxUnavailable":null}: only allowed '
                "for updateStrategy 'RollingUpdate'"
            ],
        ),
    ],
)
def test_errors_of_new_objects(spec: dict[str, Any], faults: list[str]) -> None:
    assert RULES.faults(spec) == faults


def test_claim_template_may_have_the_name_of_a_template_volume() -> None:
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "more", "emptyDir": {}}]
    spec = {"volumeClaimTemplates": [claim()], "template": template_with_mounts("data", "more", volumes=volumes)}
    assert RULES.faults(spec) == []
    assert [volume.name for volume in RULES.create(spec).spec.template.spec.volumes] == ["data", "more"]


def test_errors_of_labels_and_annotations_are_reported_once() -> None:
    faults = RULES.faults({"template": template(labels={**LABELS, "x": "no good"}, annotations={"": "x"})})
    fields = [fault.partition(":")[0] for fault in faults]
    assert fields == ["spec.template.labels", "spec.template.annotations", "spec.template.annotations"]


def test_kind_and_defaults_of_claim_templates_are_set() -> None:
    created = RULES.create({"volumeClaimTemplates": [{"kind": "Odd", "apiVersion": "v7", **claim(storage="0.5")}]})
    template = created.spec.volumeClaimTemplates[0]
    assert (template.kind, template.apiVersion, template.status.phase) == ("PersistentVolumeClaim", "v1", "Pending")
    assert (template.spec.volumeMode, template.spec.resources.requests) == ("Filesystem", {"storage": "500m"})


@pytest.mark.parametrize(
    ("spec", "is_mutable"),
    [
        ({"replicas": 3}, True),
        ({"ordinals": {"start": 2}}, True),
        ({"minReadySeconds": 2}, True),
        ({"revisionHistoryLimit": 2}, True),
        ({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}, True),
        ({"updateStrategy": {"type": "OnDelete"}}, True),
        ({"serviceName": "other"}, False),
        ({"volumeClaimTemplates": [claim()]}, False),
        ({"podManagementPolicy": "Parallel"}, False),
    ],
)
def test_mutable_and_immutable_spec_fields(spec: dict[str, Any], is_mutable: bool) -> None:
    faults = RULES.update(RULES.create(), spec)[1]
    (field,) = spec
    messages = [] if is_mutable else [f"spec.{field}: Invalid value: …: field is immutable"]
    assert [re.sub("value: .*: field", "value: …: field", fault) for fault in faults] == messages


def test_unchanged_invalid_template_is_not_validated_on_update() -> None:
    invalid_template = {"template": template_with_mounts("nowhere")}
    assert RULES.update(RULES.create(invalid_template), {**invalid_template, "replicas": 5})[1] == []
    assert RULES.update(RULES.create(), invalid_template)[1] == [
        'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "nowhere"'
    ]


def test_stored_invalid_service_name_and_claims_are_allowed_on_update() -> None:
    invalid_spec = {"serviceName": "No_Name", "volumeClaimTemplates": [claim(accessModes=[])]}
    assert RULES.update(RULES.create(invalid_spec), {**invalid_spec, "replicas": 5})[1] == []


@pytest.mark.parametrize(("is_enabled", "default"), [(True, 1), (False, None)])
def test_max_unavailable_has_a_default_if_its_feature_gate_is_on(is_enabled: bool, default: int | None) -> None:
    gates = FeatureGates({"MaxUnavailableStatefulSet": is_enabled}, level=37)
    rules = Rules(statefulsets.BEHAVIOR, StatefulSet, SPEC, gates)
    assert rules.create().spec.updateStrategy.rollingUpdate.maxUnavailable == default


def test_warnings() -> None:
    spec = {"volumeClaimTemplates": [claim(storage="500m")], "revisionHistoryLimit": -1}
    fraction = 'fractional byte value "500m" is invalid, must be an integer'
    at, history = "spec.volumeClaimTemplates[0]", "spec.revisionHistoryLimit: a negative value retains all historical"
    warnings = RULES.warnings(spec)
    assert warnings[0] == f"{at}.resources.requests[storage]: {fraction}"
    assert warnings[1].startswith(history)
    assert RULES.warnings(spec, old=RULES.create(spec))[0] == f"{at}.Spec.resources.requests[storage]: {fraction}"


def test_status_is_validated_and_shown_in_table() -> None:
    old, faults = RULES.update_status(RULES.create(), {"replicas": 1, "collisionCount": 1, "readyReplicas": 1})
    assert faults == []
    assert RULES.cells(old) == ["a", "1/1", "0s", "c", "nginx:1"]
    assert RULES.update_status(old, {"replicas": 1, "collisionCount": 0})[1] == [
        "status.collisionCount: Invalid value: 0: cannot be decremented"
    ]
