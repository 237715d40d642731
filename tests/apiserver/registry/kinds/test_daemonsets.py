"""DaemonSets: rules that the golden replay does not cover."""

from typing import Any

import pytest

from sampan.api.types.apps_v1 import DaemonSet
from sampan.apiserver.registry.kinds import daemonsets
from sampan.machinery.errors import ApiError
from tests.apiserver.registry.kind_rules import LABELS, Rules, template

RULES = Rules(daemonsets.BEHAVIOR, DaemonSet, {"selector": {"matchLabels": LABELS}, "template": template()})
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
AT = "spec.updateStrategy.rollingUpdate"


def rolling_update(**amounts: Any) -> dict[str, Any]:
    return {"updateStrategy": {"rollingUpdate": amounts}}


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        (rolling_update(), []),
        (rolling_update(maxUnavailable="100%"), []),
        (
            rolling_update(maxUnavailable="101%"),
            [f'{AT}.maxUnavailable: Invalid value: "101%": must not be greater than 100%'],
        ),
        (
            rolling_update(maxUnavailable=0, maxSurge="101%"),
            [f'{AT}.maxSurge: Invalid value: "101%": must not be greater than 100%'],
        ),
        (
            rolling_update(maxUnavailable=1, maxSurge=1),
            [f"{AT}.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"],
        ),
        (rolling_update(maxUnavailable=0), [f"{AT}.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]),
        (
            {"selector": {}},
            ["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"],
        ),
        (
            {"updateStrategy": {"type": "Odd", "rollingUpdate": {}}},
            [
                'spec.updateStrategy: Unsupported value: {"Type":"Odd","RollingUpdate":{"MaxUnavailable":0,'
                '"MaxSurge":0}}: supported values: "RollingUpdate", "OnDelete"'
            ],
        ),
    ],
)
def test_errors_of_new_objects(spec: dict[str, Any], faults: list[str]) -> None:
    assert RULES.faults(spec) == faults


def test_template_generation_counts_template_changes() -> None:
    old = RULES.create(annotations={TEMPLATE_GENERATION: "4"})
    assert old.metadata.annotations == {TEMPLATE_GENERATION: "4"}
    other, _ = RULES.update(old, {"template": template({"nodeName": "n"})}, annotations={TEMPLATE_GENERATION: "99"})
    assert (other.metadata.annotations[TEMPLATE_GENERATION], other.metadata.generation) == ("5", 2)
    same, _ = RULES.update(old, {"minReadySeconds": 3})
    assert (same.metadata.annotations[TEMPLATE_GENERATION], same.metadata.generation) == ("4", 2)
    reported, _ = RULES.update_status(old, {"numberReady": 1}, annotations={})
    assert (reported.metadata.annotations[TEMPLATE_GENERATION], reported.metadata.generation) == ("4", 1)


def test_negative_template_generation_becomes_one_and_text_is_rejected() -> None:
    assert RULES.create(annotations={TEMPLATE_GENERATION: "-3"}).metadata.annotations[TEMPLATE_GENERATION] == "1"
    with pytest.raises(ApiError, match=r"strconv\.ParseInt"):
        RULES.create(annotations={TEMPLATE_GENERATION: "many"})


def test_invalid_value_in_stored_selector_is_allowed_on_update() -> None:
    invalid_selector = {"selector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["no good"]}]}}
    faults = [fault.partition(":")[0] for fault in RULES.faults(invalid_selector)]
    assert faults == ["spec.selector.matchExpressions[0].values[0]"]
    assert RULES.update(RULES.create(invalid_selector), {**invalid_selector, "minReadySeconds": 1})[1] == []


def test_warnings_are_given_only_for_a_changed_template() -> None:
    spec = {"template": template({"nodeSelector": {"beta.kubernetes.io/os": "linux"}})}
    warnings = RULES.warnings(spec, name="a.b")
    assert len(warnings) == 1
    assert warnings[0].startswith("spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated")
    assert RULES.warnings({**spec, "minReadySeconds": 1}, old=RULES.create(spec)) == []
    assert RULES.warnings(spec, old=RULES.create()) == warnings


def test_table_cells() -> None:
    spec = {"template": template({"nodeSelector": {"b": "c", "a": "b"}})}
    status = {"desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2}
    updated, faults = RULES.update_status(RULES.create(spec), {**status, "numberAvailable": 1, "numberMisscheduled": 0})
    assert faults == []
    assert RULES.cells(updated) == ["a", 5, 4, 3, 2, 1, "a=b,b=c", "0s", "c", "nginx:1", "app=a"]
    assert RULES.cells(RULES.create())[6] == "<none>"
