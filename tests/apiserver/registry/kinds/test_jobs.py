"""Jobs: what the recordings do not show."""

from typing import Any

import pytest

from sampan.api.types.batch_v1 import Job
from sampan.api.values.times import format_time
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.registry.kinds import jobs
from tests.apiserver.registry.kind_rules import LABELS, NOW, UID, Rules, template

ONCE = {"restartPolicy": "Never"}
RULES = Rules(jobs.BEHAVIOUR, Job, {"template": {"spec": template(ONCE)["spec"]}})
GENERATED = {
    "batch.kubernetes.io/controller-uid": UID,
    "batch.kubernetes.io/job-name": "a",
    "controller-uid": UID,
    "job-name": "a",
}


def indexed(**spec: Any) -> dict[str, Any]:
    return {"completionMode": "Indexed", "completions": 5, **spec}


def exit_codes(**codes: Any) -> dict[str, Any]:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1], **codes}}
    return {"podFailurePolicy": {"rules": [rule]}}


def success(**rule: Any) -> dict[str, Any]:
    return indexed(successPolicy={"rules": [rule]})


# -- selector and labels ---------------------------------------------------------------------------------------------


def test_a_job_gets_a_selector_and_shares_its_labels_with_its_pods() -> None:
    job = RULES.new()
    assert job.spec.selector.matchLabels == {"batch.kubernetes.io/controller-uid": UID}
    assert job.metadata.labels == job.spec.template.metadata.labels == GENERATED


def test_labels_of_its_own_stay() -> None:
    job = RULES.new({"template": template(ONCE)}, labels=LABELS)
    assert job.metadata.labels == LABELS
    assert job.spec.template.metadata.labels == {**LABELS, **GENERATED}


def test_a_wrong_label_is_refused() -> None:
    faults = RULES.faults({"template": template(ONCE, labels={"job-name": "b"})})
    assert len(faults) == 1
    assert faults[0].startswith("spec.template.metadata.labels[job-name]: Invalid value: {")
    assert faults[0].endswith("""\"job-name":"b"}: must be 'a'""")


def test_a_manual_selector_must_be_there_and_match() -> None:
    assert RULES.faults({"manualSelector": True}) == [
        "spec.selector: Required value",
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
    ]
    manual = {"manualSelector": True, "selector": {"matchLabels": LABELS}, "template": template(ONCE)}
    assert RULES.faults(manual) == []


# -- the spec --------------------------------------------------------------------------------------------------------

VALUES = "spec.podFailurePolicy.rules[0].onExitCodes.values"
HIGH = "when completions are above 100000 and used with backoff limit per index"


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        (
            {"maxFailedIndexes": -1, "backoffLimitPerIndex": -1, **indexed()},
            ["backoffLimitPerIndex", "maxFailedIndexes"],
        ),
        (indexed(maxFailedIndexes=1), ["backoffLimitPerIndex"]),
        (indexed(maxFailedIndexes=6, backoffLimitPerIndex=1), ["maxFailedIndexes"]),
        (indexed(maxFailedIndexes=100_001, backoffLimitPerIndex=1, completions=200_000), ["maxFailedIndexes"] * 2),
        (indexed(backoffLimitPerIndex=1, completions=200_000, parallelism=10_001), ["maxFailedIndexes", "parallelism"]),
        ({"managedBy": ""}, ["managedBy"]),
        ({"managedBy": f"a.b/{'x' * 60}"}, ["managedBy"]),
        ({"successPolicy": {"rules": [{"succeededCount": 1}]}}, ["successPolicy"]),
        (indexed(successPolicy={"rules": []}), ["successPolicy.rules"]),
        (success(succeededIndexes="1-2-3"), ["successPolicy.rules[0].succeededIndexes"]),
        (success(succeededIndexes="3,1"), ["successPolicy.rules[0].succeededIndexes"]),
        (success(succeededIndexes="3-1"), ["successPolicy.rules[0].succeededIndexes"]),
        (success(succeededIndexes="0-1", succeededCount=3), ["successPolicy.rules[0].succeededCount"]),
        (success(succeededCount=-1), ["successPolicy.rules[0].succeededCount"]),
        ({"podFailurePolicy": {"rules": [{}]}}, ["podFailurePolicy.rules[0].action", "podFailurePolicy.rules[0]"]),
        (exit_codes(values=list(range(1, 257))), ["podFailurePolicy.rules[0].onExitCodes.values"]),
        ({"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "TerminatingOrFailed"}, ["podReplacementPolicy"]),
    ],
)
def test_errors_name_their_fields(spec: dict[str, Any], faults: list[str]) -> None:
    fields = [fault.partition(":")[0] for fault in RULES.faults(spec)]
    assert fields == [f"spec.{fault}" for fault in faults]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (exit_codes(values=None), f"{VALUES}: Invalid value: null: at least one value is required"),
        (exit_codes(values=[3, 2]), f"{VALUES}: Invalid value: [3,2]: must be ordered"),
        (
            exit_codes(operator=""),
            'spec.podFailurePolicy.rules[0].onExitCodes.operator: Required value: valid values: ["In" "NotIn"]',
        ),
        (
            {"successPolicy": {"rules": [{"succeededCount": 1}]}},
            'spec.successPolicy: Invalid value: {"Rules":[{"SucceededIndexes":null,"SucceededCount":1}]}: requires '
            "indexed completion mode",
        ),
        (
            {"template": template({"restartPolicy": "Odd"})},
            'spec.template.spec.restartPolicy: Unsupported value: "Odd": supported values: "OnFailure", "Never"',
        ),
        (
            indexed(completions=200_000, parallelism=10_001, maxFailedIndexes=1, backoffLimitPerIndex=1),
            f"spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 {HIGH}",
        ),
    ],
)
def test_messages_of_errors(spec: dict[str, Any], fault: str) -> None:
    assert RULES.faults(spec)[-1] == fault


def test_the_names_of_the_pods_of_an_indexed_job_must_fit() -> None:
    name = "a" * 62
    assert RULES.faults(indexed(), name=name) == [
        f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid DNS label: {name}-4'
    ]
    assert RULES.faults(name=name) == []


# -- changes ---------------------------------------------------------------------------------------------------------


def stored(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> Job:
    job: Job = RULES.with_status(RULES.new(spec), status or {})[0]
    return job


def again(old: Job, spec: dict[str, Any], **pod: Any) -> list[str]:
    """Faults of a change of the spec, and of the pods' spec."""
    changed = template({**ONCE, **pod}, labels=old.spec.template.metadata.labels)
    selector = {"matchLabels": dict(old.spec.selector.matchLabels)} if old.spec.selector is not None else None
    return RULES.changed(old, {"template": changed, "selector": selector, **spec})[1]


RESTING = {"conditions": [{"type": "Suspended", "status": "True"}]}
ELSEWHERE = {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}
PREFERENCE = {"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}}
NODES = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERENCE]}}
MORE = {"containers": [{"name": "c", "image": "nginx:1", "resources": {"limits": {"cpu": "1"}}}]}
OTHER = {"containers": [{"name": "c", "image": "nginx:2"}]}


@pytest.mark.parametrize(
    ("suspend", "status", "pod", "field"),
    [
        (False, {}, ELSEWHERE, "spec.template"),
        (True, {}, ELSEWHERE, "spec.template"),
        (True, {**RESTING, "active": 1}, ELSEWHERE, "spec.template"),
        (True, RESTING, ELSEWHERE, ""),
        (True, RESTING, {"affinity": NODES}, ""),
        (True, RESTING, MORE, ""),
        (True, RESTING, OTHER, "spec.template.spec"),
        (True, RESTING, {"affinity": {"podAffinity": {}}}, "spec.template.spec"),
        (True, RESTING, {"schedulingGates": [{"name": "a"}]}, ""),
    ],
)
def test_what_may_change_of_the_template(suspend: bool, status: Any, pod: dict[str, Any], field: str) -> None:
    old = stored({"suspend": suspend}, status)
    faults = again(old, {"suspend": suspend}, **pod)
    assert [fault.partition(":")[0] for fault in faults] == ([field] if field else [])


def test_node_affinity_may_go_again() -> None:
    old = stored({"suspend": True, "template": template({**ONCE, "affinity": NODES})}, RESTING)
    assert again(old, {"suspend": True}) == []


@pytest.mark.parametrize(
    ("before", "after", "faults"),
    [
        ({"completions": 2}, {"completions": 3}, ["spec.completions: Invalid value: 3: field is immutable"]),
        (indexed(), indexed(completions=3, parallelism=3), []),
        (
            indexed(),
            indexed(completions=3),
            ["spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"],
        ),
        ({"managedBy": "a.b/c"}, {}, ["spec.managedBy: Invalid value: null: field is immutable"]),
        (
            exit_codes(),
            exit_codes(values=[2]),
            [
                'spec.podFailurePolicy: Invalid value: {"Rules":[{"Action":"FailJob","OnExitCodes":{"ContainerName":'
                'null,"Operator":"In","Values":[2]},"OnPodConditions":null}]}: field is immutable'
            ],
        ),
        ({}, {"parallelism": 7, "completions": 1, "activeDeadlineSeconds": 8, "suspend": True}, []),
    ],
)
def test_what_may_change(before: dict[str, Any], after: dict[str, Any], faults: list[str]) -> None:
    assert again(stored(before), after) == faults


def test_errors_of_the_spec_are_reported_twice_for_a_change() -> None:
    fault = "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"
    assert again(stored({"parallelism": 1}), {"parallelism": -1, "completions": None}) == [fault, fault]


def test_old_jobs_lack_labels_with_a_prefix() -> None:
    old = stored()
    for key in ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"):
        del old.spec.template.metadata.labels[key]
    assert old.spec.selector is not None
    old.spec.selector.matchLabels = {"controller-uid": UID}
    assert again(old, {"parallelism": 3, "completions": 1}) == []


# -- status ----------------------------------------------------------------------------------------------------------

START, END = format_time(NOW), format_time(NOW + 90)
CONDITIONS = "status.conditions: Invalid value"


def ended(*conditions: str, **status: Any) -> dict[str, Any]:
    statuses = [{"type": condition, "status": "True"} for condition in conditions]
    return {"startTime": START, "conditions": statuses, **status}


DONE = ended("SuccessCriteriaMet", "Complete", completionTime=END)
BROKEN = ended("FailureTarget", "Failed")


@pytest.mark.parametrize(
    ("status", "faults"),
    [
        (DONE, []),
        (BROKEN, []),
        (
            {"conditions": DONE["conditions"]},
            [
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.startTime: Required value: startTime is required for finished job",
            ],
        ),
        (
            {"completionTime": END},
            [
                f'status.completionTime: Invalid value: "{END}": cannot set completionTime when there is no '
                "Complete=True condition"
            ],
        ),
        (
            {**DONE, "startTime": END, "completionTime": START},
            [f'status.completionTime: Invalid value: "{START}": must be equal to or after `startTime`'],
        ),
        (
            ended("Complete", "FailureTarget", completionTime=END),
            [
                f"{CONDITIONS}: cannot set Complete=True and FailureTarget=true conditions",
                f"{CONDITIONS}: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ],
        ),
        (
            ended("SuccessCriteriaMet", "FailureTarget", "Failed"),
            [
                f"{CONDITIONS}: cannot set SuccessCriteriaMet=True and Failed=true conditions",
                f"{CONDITIONS}: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
            ],
        ),
        (
            {**DONE, "active": 1, "ready": 2, "terminating": 3},
            [
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.terminating: Invalid value: 3: terminating>0 is invalid for finished job",
                "status.ready: Invalid value: 2: cannot set more ready pods than active",
            ],
        ),
        (
            {**DONE, "uncountedTerminatedPods": {"succeeded": ["x", ""], "failed": ["x"]}},
            [
                'status.uncountedTerminatedPods.succeeded[1]: Invalid value: "": must not be empty',
                'status.uncountedTerminatedPods.failed[0]: Duplicate value: "x"',
                'status.uncountedTerminatedPods: Invalid value: {"Succeeded":["x",""],"Failed":["x"]}: must be empty '
                "for finished job",
            ],
        ),
        (
            {"completedIndexes": "0", "failedIndexes": "0"},
            [
                'status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed '
                "completion mode",
                'status.failedIndexes: Invalid value: "0": cannot set non-null failedIndexes when backoffLimitPerIndex '
                "is null",
                'status.failedIndexes: Invalid value: "0": failedIndexes and completedIndexes overlap at index: 0',
            ],
        ),
    ],
)
def test_errors_of_a_first_status(status: dict[str, Any], faults: list[str]) -> None:
    assert RULES.with_status(RULES.new(), status)[1] == faults


def test_lists_of_indexes() -> None:
    job = RULES.new(indexed(backoffLimitPerIndex=1))
    assert RULES.with_status(job, {"completedIndexes": "0,2-4", "failedIndexes": "1"})[1] == []
    assert RULES.with_status(job, {"completedIndexes": "0,9", "failedIndexes": "x"})[1] == [
        'status.completedIndexes: Invalid value: "0,9": error parsing completedIndexes: too large index: "9"',
        'status.failedIndexes: Invalid value: "x": error parsing failedIndexes: cannot convert string to integer for '
        'index: "x"',
    ]
    assert RULES.with_status(job, {"completedIndexes": "0-2", "failedIndexes": "2-3"})[1] == [
        'status.failedIndexes: Invalid value: "2-3": failedIndexes and completedIndexes overlap at index: 2'
    ]


@pytest.mark.parametrize(
    ("before", "after", "faults"),
    [
        (BROKEN, {"startTime": START}, ["Failed=True", "FailureTarget=True"]),
        (DONE, ended("SuccessCriteriaMet", "Complete", completionTime=format_time(NOW + 99)), ["field is immutable"]),
        ({"startTime": START}, {"startTime": END}, ["field is immutable for unsuspended job once set"]),
        ({"startTime": START, "failed": 3, "succeeded": 3}, {"startTime": START}, ["the failed", "the succeeded"]),
        (ended("SuccessCriteriaMet"), {"startTime": START}, ["cannot disable the SuccessCriteriaMet=True condition"]),
    ],
)
def test_a_status_does_not_go_back(before: dict[str, Any], after: dict[str, Any], faults: list[str]) -> None:
    errors = RULES.with_status(stored(None, before), after)[1]
    assert len(errors) == len(faults)
    assert all(fault in text for fault, text in zip(faults, errors, strict=True))


def test_a_status_that_was_wrong_before_may_be_worked_on() -> None:
    old = stored(None, {"conditions": DONE["conditions"]})
    assert RULES.with_status(old, {"conditions": DONE["conditions"], "succeeded": 1})[1] == []


def test_an_indexed_job_that_shrinks_may_count_fewer_successes() -> None:
    old = stored(indexed(parallelism=5), {"succeeded": 5})
    assert RULES.with_status(old, {"succeeded": 3})[1] == []


# -- the rest --------------------------------------------------------------------------------------------------------


def test_warnings() -> None:
    large = indexed(completions=100_001, parallelism=10_001)
    warnings = RULES.warnings(
        {**large, "template": template({**ONCE, "terminationGracePeriodSeconds": -1})}, name="a.b"
    )
    assert [text.partition(":")[0] for text in warnings] == [
        "metadata.name",
        "spec",
        "spec.template.spec.terminationGracePeriodSeconds",
    ]
    strategy = jobs.BEHAVIOUR.strategy
    ctx: Any = None
    assert [text[:26] for text in strategy.delete_warnings(ctx, DeleteOptions())] == ["child pods are preserved b"]
    assert list(strategy.delete_warnings(ctx, DeleteOptions(propagation_policy="Orphan"))) == []
    assert strategy.default_garbage_collection_policy == "Orphan"


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        ({}, {}, ["Running", "0/1", ""]),
        ({"parallelism": 3}, {"startTime": START, "succeeded": 1}, ["Running", "1/1 of 3", "2m"]),
        ({"parallelism": 1}, RESTING, ["Suspended", "0/1", ""]),
        ({"completions": 4}, DONE, ["Complete", "0/4", "90s"]),
        ({}, BROKEN, ["Failed", "0/1", "2m"]),
        ({}, ended("FailureTarget"), ["FailureTarget", "0/1", "2m"]),
        ({}, ended("SuccessCriteriaMet"), ["SuccessCriteriaMet", "0/1", "2m"]),
    ],
)
def test_rows(spec: dict[str, Any], status: dict[str, Any], cells: list[str]) -> None:
    selector = f"batch.kubernetes.io/controller-uid={UID}"
    job = stored(spec, status)
    assert RULES.cells(job, NOW + 120) == ["a", *cells, "2m", "c", "nginx:1", selector]


def test_a_job_that_is_being_deleted_says_so_unless_it_has_ended() -> None:
    job = stored()
    job.metadata.deletionTimestamp = START
    assert RULES.cells(job)[1] == "Terminating"
