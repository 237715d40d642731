"""Jobs: rules that the golden replay does not cover."""

from typing import Any

import pytest

from sampan.api.types.batch_v1 import Job
from sampan.api.values.times import format_time
from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.registry.kinds import jobs
from tests.apiserver.registry.kind_rules import LABELS, NOW, UID, Rules, template

NEVER_RESTART = {"restartPolicy": "Never"}
RULES = Rules(jobs.BEHAVIOR, Job, {"template": {"spec": template(NEVER_RESTART)["spec"]}})
GENERATED = {
    "batch.kubernetes.io/controller-uid": UID,
    "batch.kubernetes.io/job-name": "a",
    "controller-uid": UID,
    "job-name": "a",
}


def indexed_job_spec(**spec: Any) -> dict[str, Any]:
    return {"completionMode": "Indexed", "completions": 5, **spec}


def exit_codes(**codes: Any) -> dict[str, Any]:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1], **codes}}
    return {"podFailurePolicy": {"rules": [rule]}}


def success_policy_spec(**rule: Any) -> dict[str, Any]:
    return indexed_job_spec(successPolicy={"rules": [rule]})


# -- selector and labels ---------------------------------------------------------------------------------------------


def test_job_and_template_get_generated_selector_and_labels() -> None:
    job = RULES.create()
    assert job.spec.selector.matchLabels == {"batch.kubernetes.io/controller-uid": UID}
    assert job.metadata.labels == job.spec.template.metadata.labels == GENERATED


def test_existing_labels_of_job_and_template_are_kept() -> None:
    job = RULES.create({"template": template(NEVER_RESTART)}, labels=LABELS)
    assert job.metadata.labels == LABELS
    assert job.spec.template.metadata.labels == {**LABELS, **GENERATED}


def test_template_label_with_other_job_name_is_rejected() -> None:
    faults = RULES.faults({"template": template(NEVER_RESTART, labels={"job-name": "b"})})
    assert len(faults) == 1
    assert faults[0].startswith("spec.template.metadata.labels[job-name]: Invalid value: {")
    assert faults[0].endswith("""\"job-name":"b"}: must be 'a'""")


def test_manual_selector_is_required_and_must_match_template() -> None:
    assert RULES.faults({"manualSelector": True}) == [
        "spec.selector: Required value",
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
    ]
    manual = {"manualSelector": True, "selector": {"matchLabels": LABELS}, "template": template(NEVER_RESTART)}
    assert RULES.faults(manual) == []


# -- the spec --------------------------------------------------------------------------------------------------------

VALUES = "spec.podFailurePolicy.rules[0].onExitCodes.values"
HIGH = "when completions are above 100000 and used with backoff limit per index"


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        (
            {"maxFailedIndexes": -1, "backoffLimitPerIndex": -1, **indexed_job_spec()},
            ["backoffLimitPerIndex", "maxFailedIndexes"],
        ),
        (indexed_job_spec(maxFailedIndexes=1), ["backoffLimitPerIndex"]),
        (indexed_job_spec(maxFailedIndexes=6, backoffLimitPerIndex=1), ["maxFailedIndexes"]),
        (
            indexed_job_spec(maxFailedIndexes=100_001, backoffLimitPerIndex=1, completions=200_000),
            ["maxFailedIndexes"] * 2,
        ),
        (
            indexed_job_spec(backoffLimitPerIndex=1, completions=200_000, parallelism=10_001),
            ["maxFailedIndexes", "parallelism"],
        ),
        ({"managedBy": ""}, ["managedBy"]),
        ({"managedBy": f"a.b/{'x' * 60}"}, ["managedBy"]),
        ({"successPolicy": {"rules": [{"succeededCount": 1}]}}, ["successPolicy"]),
        (indexed_job_spec(successPolicy={"rules": []}), ["successPolicy.rules"]),
        (success_policy_spec(succeededIndexes="1-2-3"), ["successPolicy.rules[0].succeededIndexes"]),
        (success_policy_spec(succeededIndexes="3,1"), ["successPolicy.rules[0].succeededIndexes"]),
        (success_policy_spec(succeededIndexes="3-1"), ["successPolicy.rules[0].succeededIndexes"]),
        (success_policy_spec(succeededIndexes="0-1", succeededCount=3), ["successPolicy.rules[0].succeededCount"]),
        (success_policy_spec(succeededCount=-1), ["successPolicy.rules[0].succeededCount"]),
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
            indexed_job_spec(completions=200_000, parallelism=10_001, maxFailedIndexes=1, backoffLimitPerIndex=1),
            f"spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 {HIGH}",
        ),
    ],
)
def test_messages_of_errors(spec: dict[str, Any], fault: str) -> None:
    assert RULES.faults(spec)[-1] == fault


def test_name_of_indexed_job_must_leave_room_for_pod_index() -> None:
    name = "a" * 62
    assert RULES.faults(indexed_job_spec(), name=name) == [
        f'metadata.name: Invalid value: "{name}": will not able to create pod with invalid DNS label: {name}-4'
    ]
    assert RULES.faults(name=name) == []


# -- changes ---------------------------------------------------------------------------------------------------------


def stored_job(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> Job:
    job: Job = RULES.update_status(RULES.create(spec), status or {})[0]
    return job


def update_errors(old: Job, spec: dict[str, Any], **pod: Any) -> list[str]:
    """Return the errors of an update of the spec, and of the pod spec in its template."""
    changed = template({**NEVER_RESTART, **pod}, labels=old.spec.template.metadata.labels)
    selector = {"matchLabels": dict(old.spec.selector.matchLabels)} if old.spec.selector is not None else None
    return RULES.update(old, {"template": changed, "selector": selector, **spec})[1]


SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True"}]}
SCHEDULING_FIELDS = {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}
PREFERENCE = {"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}}
NODE_AFFINITY = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [PREFERENCE]}}
OTHER_RESOURCES = {"containers": [{"name": "c", "image": "nginx:1", "resources": {"limits": {"cpu": "1"}}}]}
OTHER_IMAGE = {"containers": [{"name": "c", "image": "nginx:2"}]}


@pytest.mark.parametrize(
    ("suspend", "status", "pod", "field"),
    [
        (False, {}, SCHEDULING_FIELDS, "spec.template"),
        (True, {}, SCHEDULING_FIELDS, "spec.template"),
        (True, {**SUSPENDED, "active": 1}, SCHEDULING_FIELDS, "spec.template"),
        (True, SUSPENDED, SCHEDULING_FIELDS, ""),
        (True, SUSPENDED, {"affinity": NODE_AFFINITY}, ""),
        (True, SUSPENDED, OTHER_RESOURCES, ""),
        (True, SUSPENDED, OTHER_IMAGE, "spec.template.spec"),
        (True, SUSPENDED, {"affinity": {"podAffinity": {}}}, "spec.template.spec"),
        (True, SUSPENDED, {"schedulingGates": [{"name": "a"}]}, ""),
    ],
)
def test_template_scheduling_fields_and_resources_are_mutable_while_suspended(
    suspend: bool, status: Any, pod: dict[str, Any], field: str
) -> None:
    old = stored_job({"suspend": suspend}, status)
    faults = update_errors(old, {"suspend": suspend}, **pod)
    assert [fault.partition(":")[0] for fault in faults] == ([field] if field else [])


def test_node_affinity_can_be_removed_while_suspended() -> None:
    old = stored_job({"suspend": True, "template": template({**NEVER_RESTART, "affinity": NODE_AFFINITY})}, SUSPENDED)
    assert update_errors(old, {"suspend": True}) == []


@pytest.mark.parametrize(
    ("before", "after", "faults"),
    [
        ({"completions": 2}, {"completions": 3}, ["spec.completions: Invalid value: 3: field is immutable"]),
        (indexed_job_spec(), indexed_job_spec(completions=3, parallelism=3), []),
        (
            indexed_job_spec(),
            indexed_job_spec(completions=3),
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
def test_immutable_spec_fields_are_rejected_on_update(
    before: dict[str, Any], after: dict[str, Any], faults: list[str]
) -> None:
    assert update_errors(stored_job(before), after) == faults


def test_spec_errors_are_reported_once_on_update() -> None:
    fault = "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"
    assert update_errors(stored_job({"parallelism": 1}), {"parallelism": -1, "completions": None}) == [fault]


def test_old_job_without_prefixed_labels_can_be_updated() -> None:
    old = stored_job()
    for key in ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"):
        del old.spec.template.metadata.labels[key]
    assert old.spec.selector is not None
    old.spec.selector.matchLabels = {"controller-uid": UID}
    assert update_errors(old, {"parallelism": 3, "completions": 1}) == []


# -- status ----------------------------------------------------------------------------------------------------------

START, END = format_time(NOW), format_time(NOW + 90)
CONDITIONS = "status.conditions: Invalid value"


def status_with(*conditions: str, **status: Any) -> dict[str, Any]:
    statuses = [{"type": condition, "status": "True"} for condition in conditions]
    return {"startTime": START, "conditions": statuses, **status}


COMPLETE = status_with("SuccessCriteriaMet", "Complete", completionTime=END)
FAILED = status_with("FailureTarget", "Failed")


@pytest.mark.parametrize(
    ("status", "faults"),
    [
        (COMPLETE, []),
        (FAILED, []),
        (
            {"conditions": COMPLETE["conditions"]},
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
            {**COMPLETE, "startTime": END, "completionTime": START},
            [f'status.completionTime: Invalid value: "{START}": must be equal to or after `startTime`'],
        ),
        (
            status_with("Complete", "FailureTarget", completionTime=END),
            [
                f"{CONDITIONS}: cannot set Complete=True and FailureTarget=true conditions",
                f"{CONDITIONS}: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            ],
        ),
        (
            status_with("SuccessCriteriaMet", "FailureTarget", "Failed"),
            [
                f"{CONDITIONS}: cannot set SuccessCriteriaMet=True and Failed=true conditions",
                f"{CONDITIONS}: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
            ],
        ),
        (
            {**COMPLETE, "active": 1, "ready": 2, "terminating": 3},
            [
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.terminating: Invalid value: 3: terminating>0 is invalid for finished job",
                "status.ready: Invalid value: 2: cannot set more ready pods than active",
            ],
        ),
        (
            {**COMPLETE, "uncountedTerminatedPods": {"succeeded": ["x", ""], "failed": ["x"]}},
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
    assert RULES.update_status(RULES.create(), status)[1] == faults


def test_errors_of_completed_and_failed_indexes() -> None:
    job = RULES.create(indexed_job_spec(backoffLimitPerIndex=1))
    assert RULES.update_status(job, {"completedIndexes": "0,2-4", "failedIndexes": "1"})[1] == []
    assert RULES.update_status(job, {"completedIndexes": "0,9", "failedIndexes": "x"})[1] == [
        'status.completedIndexes: Invalid value: "0,9": error parsing completedIndexes: too large index: "9"',
        'status.failedIndexes: Invalid value: "x": error parsing failedIndexes: cannot convert string to integer for '
        'index: "x"',
    ]
    assert RULES.update_status(job, {"completedIndexes": "0-2", "failedIndexes": "2-3"})[1] == [
        'status.failedIndexes: Invalid value: "2-3": failedIndexes and completedIndexes overlap at index: 2'
    ]


@pytest.mark.parametrize(
    ("before", "after", "faults"),
    [
        (FAILED, {"startTime": START}, ["Failed=True", "FailureTarget=True"]),
        (
            COMPLETE,
            status_with("SuccessCriteriaMet", "Complete", completionTime=format_time(NOW + 99)),
            ["field is immutable"],
        ),
        ({"startTime": START}, {"startTime": END}, ["field is immutable for unsuspended job once set"]),
        ({"startTime": START, "failed": 3, "succeeded": 3}, {"startTime": START}, ["the failed", "the succeeded"]),
        (
            status_with("SuccessCriteriaMet"),
            {"startTime": START},
            ["cannot disable the SuccessCriteriaMet=True condition"],
        ),
    ],
)
def test_status_update_cannot_revert_progress(before: dict[str, Any], after: dict[str, Any], faults: list[str]) -> None:
    errors = RULES.update_status(stored_job(None, before), after)[1]
    assert len(errors) == len(faults)
    assert all(fault in text for fault, text in zip(faults, errors, strict=True))


def test_invalid_stored_status_can_be_updated() -> None:
    old = stored_job(None, {"conditions": COMPLETE["conditions"]})
    assert RULES.update_status(old, {"conditions": COMPLETE["conditions"], "succeeded": 1})[1] == []


def test_succeeded_count_of_indexed_job_may_decrease() -> None:
    old = stored_job(indexed_job_spec(parallelism=5), {"succeeded": 5})
    assert RULES.update_status(old, {"succeeded": 3})[1] == []


# -- warnings and tables ---------------------------------------------------------------------------------------------


def test_warnings() -> None:
    large = indexed_job_spec(completions=100_001, parallelism=10_001)
    warnings = RULES.warnings(
        {**large, "template": template({**NEVER_RESTART, "terminationGracePeriodSeconds": -1})}, name="a.b"
    )
    assert [text.partition(":")[0] for text in warnings] == [
        "metadata.name",
        "spec",
        "spec.template.spec.terminationGracePeriodSeconds",
    ]
    strategy = jobs.BEHAVIOR.strategy
    ctx: Any = None
    assert [text[:26] for text in strategy.delete_warnings(ctx, DeleteOptions())] == ["child pods are preserved b"]
    assert list(strategy.delete_warnings(ctx, DeleteOptions(propagation_policy="Orphan"))) == []
    assert strategy.default_garbage_collection_policy == "Orphan"


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        ({}, {}, ["Running", "0/1", ""]),
        ({"parallelism": 3}, {"startTime": START, "succeeded": 1}, ["Running", "1/1 of 3", "2m"]),
        ({"parallelism": 1}, SUSPENDED, ["Suspended", "0/1", ""]),
        ({"completions": 4}, COMPLETE, ["Complete", "0/4", "90s"]),
        ({}, FAILED, ["Failed", "0/1", "2m"]),
        ({}, status_with("FailureTarget"), ["FailureTarget", "0/1", "2m"]),
        ({}, status_with("SuccessCriteriaMet"), ["SuccessCriteriaMet", "0/1", "2m"]),
    ],
)
def test_table_cells(spec: dict[str, Any], status: dict[str, Any], cells: list[str]) -> None:
    selector = f"batch.kubernetes.io/controller-uid={UID}"
    job = stored_job(spec, status)
    assert RULES.cells(job, NOW + 120) == ["a", *cells, "2m", "c", "nginx:1", selector]


@pytest.mark.parametrize(
    ("status", "cell"),
    [
        ({}, "Terminating"),
        (SUSPENDED, "Terminating"),
        (status_with("FailureTarget"), "Terminating"),
        (COMPLETE, "Complete"),
        (FAILED, "Failed"),
    ],
)
def test_table_shows_deleted_job_as_terminating_unless_it_is_finished(status: dict[str, Any], cell: str) -> None:
    job = stored_job({}, status)
    job.metadata.deletionTimestamp = START
    assert RULES.cells(job)[1] == cell
