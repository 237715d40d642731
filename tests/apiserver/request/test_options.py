"""Options of requests, as the real server checks them."""

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
        ("unheard=of", options.WriteOptions()),
    ],
)
def test_options_of_writes(query: str, parsed: options.WriteOptions) -> None:
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
def test_errors_of_options(query: str, fault: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        options.write_options("CreateOptions", Query(query))
    assert refused.value.message == f'CreateOptions.meta.k8s.io "" is invalid: {fault}'


@pytest.mark.parametrize(
    ("query", "is_apply", "fault"),
    [
        ("", True, "fieldManager: Required value: is required for apply patch"),
        ("fieldValidation=Warn", True, "fieldManager: Required value: is required for apply patch"),
        ("force=true", False, "force: Forbidden: may not be specified for non-apply patch"),
    ],
)
def test_options_of_patches(query: str, is_apply: bool, fault: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        options.write_options("PatchOptions", Query(query), is_apply=is_apply)
    assert refused.value.message.endswith(fault)


def test_apply_may_be_forced() -> None:
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
def test_options_of_deletions(query: str, expected: dict[str, Any]) -> None:
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
def test_errors_of_deletions(value: dict[str, Any], fault: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        options.checked_delete_options(value)
    assert refused.value.message == f'DeleteOptions.meta.k8s.io "" is invalid: {fault}'


def test_a_grace_is_a_number() -> None:
    with pytest.raises(errors.BadRequest, match=r'strconv\.ParseInt: parsing "soon": invalid syntax'):
        options.delete_options_of_query(Query("gracePeriodSeconds=soon"))
