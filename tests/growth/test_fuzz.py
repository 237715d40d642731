"""Random patches, and random texts for every small parser: only documented errors, at a bounded cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sampan.api.schema import schemas
from sampan.api.selectors import fields, label_grammar, labels
from sampan.api.types.core_v1 import Pod
from sampan.api.values import cron, durations, quantity, times
from sampan.machinery import patch
from sampan.machinery.apply import sets
from tests.input_cost import check_cost


def error_of(work: Callable[[], Any]) -> patch.PatchError | None:
    """Return the error of a patch that fails. Fail if the patch costs too much CPU time."""
    failures: list[patch.PatchError] = []

    def run() -> None:
        try:
            work()
        except patch.PatchError as error:
            failures.append(error)

    check_cost(run)
    return failures[-1] if failures else None


def code_of(work: Callable[[], Any]) -> int:
    """Return the status code of a patch, which is 200 if it succeeds."""
    error = error_of(work)
    return error.as_api_error().code if error is not None else 200


# -- patches ---------------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(
    [
        *("metadata", "labels", "finalizers", "spec", "containers", "env", "name", "value", "ports", "containerPort"),
        *("volumes", "a", "", "$patch", "$retainKeys", "$setElementOrder/containers", "$setElementOrder/env"),
        *("$deleteFromPrimitiveList/finalizers", "$setElementOrder", "$deleteFromPrimitiveList/containers"),
    ]
)
LEAVES = st.sampled_from([None, True, 0, 1, 80, 1.5, "a", "b", "", "delete", "replace", "merge", "a/b"])
VALUES = st.recursive(
    LEAVES, lambda below: st.lists(below, max_size=4) | st.dictionaries(KEYS, below, max_size=4), max_leaves=25
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
POINTERS = st.lists(
    st.sampled_from(["spec", "containers", "0", "1", "-1", "-", "env", "~1", "~0", "a", "", "9" * 5000, "+1", "01"]),
    max_size=5,
).map(lambda steps: "".join(f"/{step}" for step in steps))
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x", 1, None]), "path": POINTERS},
        optional={"from": POINTERS, "value": VALUES, "more": LEAVES},
    ),
    max_size=6,
)
DOCUMENTS: dict[str, Any] = {
    "metadata": {"finalizers": ["a", "b"], "labels": {"a": "b"}},
    "spec": {"containers": [{"name": "a", "env": [{"name": "x", "value": "1"}]}, {"name": "b", "ports": []}]},
}


@given(VALUES | OPERATIONS, OBJECTS | st.just(DOCUMENTS))
@example([{"op": "remove", "path": "/spec/containers/" + "9" * 5000}], DOCUMENTS)
@settings(max_examples=300)
def test_random_json_patches_give_documented_errors(body: Any, document: Any) -> None:
    def work() -> None:
        operations = patch.check_json_patch(body)
        patch.unknown_parts(operations)
        patch.apply_json_patch(document, operations)

    assert code_of(work) in (200, 400, 422)


@given(VALUES, OBJECTS | st.just(DOCUMENTS))
@settings(max_examples=200)
def test_random_merge_patches_give_documented_errors(body: Any, document: Any) -> None:
    assert code_of(lambda: patch.apply_merge_patch(document, patch.check_merge_patch(body))) in (200, 400)


UNEXPECTED = re.compile(
    "unknown patch type: |expected a .*, but received a |expected slice or array type, but got: struct$|"
    "unable to find api field in struct |list element types are not identical: |"
    "no elements in any of the given slices$|map: .* does not contain declared merge key: |"
    "cannot merge lists without merge key for struct$|merging lists cannot yet be specified in the patch$|"
    "The order in patch list:\n"
)
"""What kube-apiserver says with status code 500 about patches that do not fit the schema."""


@given(VALUES | OBJECTS, OBJECTS | st.just(DOCUMENTS))
@settings(max_examples=500)
def test_random_strategic_merge_patches_give_documented_errors(body: Any, document: Any) -> None:
    def work() -> None:
        patch.apply_strategic_patch(document, patch.check_strategic_patch(body), schemas.schema_of(Pod))

    error = error_of(work)
    if error is not None and error.as_api_error().code == 500:
        assert UNEXPECTED.match(str(error))
    elif error is not None:
        assert error.as_api_error().code in (400, 422)


def test_json_patch_that_shifts_a_long_list_at_each_step_is_refused() -> None:
    operations: list[dict[str, Any]] = [{"op": "add", "path": "/x", "value": [0] * 200_000}]
    operations += [{"op": "add", "path": "/x/0", "value": 0}] * 9_000

    def apply() -> None:
        with pytest.raises(patch.TooManyOperations):
            patch.apply_json_patch({}, operations)

    check_cost(apply)


def test_strategic_patch_that_names_a_large_item_at_each_step_is_refused() -> None:
    env = [{"name": f"V{number}"} for number in range(20_000)]
    again = [{"name": "c", "env": [{"name": "V0", "value": str(number)}]} for number in range(20_000)]
    body = {"spec": {"containers": [{"name": "c", "env": env}, *again]}}
    document = {"spec": {"containers": [{"name": "c", "env": []}]}}

    def apply() -> None:
        with pytest.raises(patch.TooManyOperations):
            patch.apply_strategic_patch(document, body, schemas.schema_of(Pod))

    check_cost(apply)


# -- texts -----------------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("a", "b.c/d", "=", "==", "!=", "!", ",", "(", ")", " in ", " notin ", "<", ">", "\\", " ", "\x00", "é", "-"),
        *(
            "1",
            "0",
            "9" * 30,
            "9" * 5000,
            ".",
            "e",
            "E",
            "+",
            "Ki",
            "m",
            "h",
            "us",
            "µs",
            "*",
            "/",
            "?",
            "@every ",
            "TZ=",
        ),
        *("MON", "2026-01-02T03:04:05Z", "T", "Z", ":", "\n", "\\,", "\\="),
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join) | st.tuples(PIECES, st.integers(0, 3000)).map(
    lambda pair: (pair[0] * pair[1])[:5000]
)


@pytest.mark.parametrize(
    ("parse", "error"),
    [
        pytest.param(labels.parse, label_grammar.SelectorError, id="label selectors"),
        pytest.param(fields.parse, fields.FieldSelectorError, id="field selectors"),
        pytest.param(quantity.parse, quantity.QuantityError, id="quantities"),
        pytest.param(quantity.canonical, quantity.QuantityError, id="canonical quantities"),
        pytest.param(cron.parse_schedule, cron.ScheduleError, id="schedules"),
        pytest.param(durations.parse_duration, durations.DurationError, id="durations"),
        pytest.param(times.parse_time, times.TimeError, id="times"),
        pytest.param(times.canonical_micro_time, times.TimeError, id="times with microseconds"),
        pytest.param(lambda text: sets.decode(text.encode()), sets.BadFields, id="sets of fields"),
    ],
)
@given(text=TEXTS)
@settings(max_examples=150)
def test_parsers_of_random_texts_raise_only_documented_errors(
    parse: Callable[[str], Any], error: type[Exception], text: str
) -> None:
    def run() -> None:
        with suppress(error):
            parse(text)

    check_cost(run)


@given(element=TEXTS, kind=st.sampled_from(["f:", "v:", "k:", "i:", "", "x:"]))
@settings(max_examples=150)
def test_random_managed_fields_elements_raise_only_documented_errors(element: str, kind: str) -> None:
    def run() -> None:
        with suppress(sets.BadFields):
            sets.encode(sets.decode(msgspec.json.encode({kind + element: {}})))

    check_cost(run)
