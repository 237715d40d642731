"""Options of requests, validated as by kube-apiserver."""

from typing import Any

import pytest

from sampan.apiserver.registry.deletion import DeleteOptions
from sampan.apiserver.request import options
from sampan.apiserver.request.call import Query
from sampan.machinery import errors


@pytest.mark.parametrize(
    ("query", "parsed"),
    [
        ("", options.WriteOptions()),
        ("dryRun=All", options.WriteOptions(dry_run=True)),
        ("dryRun=All&dryRun=All", options.WriteOptions(dry_run=True)),
        ("fieldManager=me&fieldValidation=Strict", options.WriteOptions(field_manager="me", field_validation="Strict")),
        ("fieldValidation=", options.WriteOptions()),
        ("unknown=option", options.WriteOptions()),
    ],
)
def test_write_options_are_parsed(query: str, parsed: options.WriteOptions) -> None:
    for kind in ("CreateOptions", "UpdateOptions", "PatchOptions"):
        assert options.write_options(kind, Query(query)) == parsed


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("dryRun=Some", 'dryRun: Unsupported value: ["Some"]: supported values: "All"'),
        ("dryRun=", 'dryRun: Unsupported value: [""]: supported values: "All"'),
        ("fieldManager=" + "x" * 129, "fieldManager: Too long: may not be more than 128 bytes"),
        ("fieldManager=%C3%A9%07", 'fieldManager: Invalid value: "é\\a": invalid character U+0007 (at position 2)'),
        (
            "fieldValidation=Loud",
            'fieldValidation: Unsupported value: "Loud": supported values: "", "Ignore", "Strict", "Warn"',
        ),
    ],
)
def test_invalid_write_options_are_rejected(query: str, fault: str) -> None:
    with pytest.raises(errors.Invalid) as rejected:
        options.write_options("CreateOptions", Query(query))
    assert rejected.value.message == f'CreateOptions.meta.k8s.io "" is invalid: {fault}'


@pytest.mark.parametrize(
    ("query", "is_apply", "fault"),
    [
        ("", True, "fieldManager: Required value: is required for apply patch"),
        ("fieldValidation=Warn", True, "fieldManager: Required value: is required for apply patch"),
        ("force=true", False, "force: Forbidden: may not be specified for non-apply patch"),
    ],
)
def test_invalid_patch_options_are_rejected(query: str, is_apply: bool, fault: str) -> None:
    with pytest.raises(errors.Invalid) as rejected:
        options.write_options("PatchOptions", Query(query), is_apply=is_apply)
    assert rejected.value.message.endswith(fault)


def test_force_option_of_apply_is_parsed() -> None:
    parsed = options.write_options("PatchOptions", Query("fieldManager=me&force=maybe"), is_apply=True)
    assert (parsed.field_manager, parsed.force) == ("me", True)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {}),
        ("gracePeriodSeconds=0", {"grace_period_seconds": 0}),
        ("gracePeriodSeconds=-5", {"grace_period_seconds": -5}),
        ("propagationPolicy=Orphan&dryRun=All", {"propagation_policy": "Orphan", "dry_run": True}),
        ("orphanDependents=false", {"orphan_dependents": False}),
    ],
)
def test_delete_options_are_parsed(query: str, expected: dict[str, Any]) -> None:
    assert options.delete_options_of_query(Query(query)) == DeleteOptions(**expected)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        (
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        ),
        (
            {"propagationPolicy": "Up"},
            'propagationPolicy: Unsupported value: "Up": supported values: "Foreground", "Background", "Orphan", "nil"',
        ),
        ({"dryRun": ["No"]}, 'dryRun: Unsupported value: ["No"]: supported values: "All"'),
    ],
)
def test_invalid_delete_options_are_rejected(value: dict[str, Any], fault: str) -> None:
    with pytest.raises(errors.Invalid) as rejected:
        options.parse_delete_options(value)
    assert rejected.value.message == f'DeleteOptions.meta.k8s.io "" is invalid: {fault}'


def test_non_numeric_grace_period_is_a_bad_request() -> None:
    with pytest.raises(errors.BadRequest, match=r'strconv\.ParseInt: parsing "soon": invalid syntax'):
        options.delete_options_of_query(Query("gracePeriodSeconds=soon"))
