from typing import Any

import pytest

from sampan.machinery import patch as p
from sampan.machinery.patch.json_patch import MAX_OPERATIONS
from tests.input_cost import check_cost

DOCUMENT = {"a": {"b": 1, "x/y": "slash", "~": "tilde"}, "list": ["p", "q", "r"], "none": None}

APPLIED: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "add a key": ([{"op": "add", "path": "/c", "value": 2}], {"c": 2}),
    "add without a value": ([{"op": "add", "path": "/c"}], {"c": None}),
    "add at the end": ([{"op": "add", "path": "/list/-", "value": "s"}], {"list": ["p", "q", "r", "s"]}),
    "add in the middle": ([{"op": "add", "path": "/list/1", "value": "s"}], {"list": ["p", "s", "q", "r"]}),
    "add before the end": ([{"op": "add", "path": "/list/-2", "value": "s"}], {"list": ["p", "q", "s", "r"]}),
    "add after the end": ([{"op": "add", "path": "/list/-1", "value": "s"}], {"list": ["p", "q", "r", "s"]}),
    "remove the last item": ([{"op": "remove", "path": "/list/-1"}], {"list": ["p", "q"]}),
    "replace a missing key": ([{"op": "replace", "path": "/c", "value": 2}], {"c": 2}),
    "escapes": (
        [{"op": "replace", "path": "/a/x~1y", "value": 1}, {"op": "remove", "path": "/a/~0"}],
        {"a": {"b": 1, "x/y": 1}},
    ),
    "path without a leading slash": ([{"op": "add", "path": "ignored/c", "value": 2}], {"c": 2}),
    "copy a missing key": ([{"op": "copy", "from": "/zz", "path": "/c"}], {"c": None}),
    "move": ([{"op": "move", "from": "/list/0", "path": "/c"}], {"list": ["q", "r"], "c": "p"}),
    "copy is independent": (
        [{"op": "copy", "from": "/a", "path": "/c"}, {"op": "replace", "path": "/c/b", "value": 2}],
        {"c": {"b": 2, "x/y": "slash", "~": "tilde"}},
    ),
    "test null of a missing key": ([{"op": "test", "path": "/zz", "value": None}], {}),
    "test null of null": ([{"op": "test", "path": "/none", "value": None}], {}),
    "test a list": ([{"op": "test", "path": "/list", "value": ["p", "q", "r"]}], {}),
    "test the document": ([{"op": "test", "path": "", "value": DOCUMENT}], {}),
}


@pytest.mark.parametrize(("operations", "changed"), APPLIED.values(), ids=APPLIED)
def test_operations(operations: list[dict[str, Any]], changed: dict[str, Any]) -> None:
    assert p.apply_json_patch(DOCUMENT, operations) == DOCUMENT | changed


def test_the_whole_document_can_be_replaced() -> None:
    assert p.apply_json_patch(DOCUMENT, [{"op": "replace", "path": "", "value": {"c": 1}}]) == {"c": 1}


REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "remove a missing key": (
        {"op": "remove", "path": "/zz"},
        "error in remove for path: '/zz': Unable to remove nonexistent key: zz: missing value",
    ),
    "remove the document": (
        {"op": "remove", "path": ""},
        'remove operation does not apply: doc is missing path: "": missing value',
    ),
    "add below a missing key": (
        {"op": "add", "path": "/zz/c", "value": 1},
        'add operation does not apply: doc is missing path: "/zz/c": missing value',
    ),
    "add below null": (
        {"op": "add", "path": "/none/c", "value": 1},
        'add operation does not apply: doc is missing path: "/none/c": missing value',
    ),
    "add after the end": (
        {"op": "add", "path": "/list/4", "value": 1},
        "error in add for path: '/list/4': Unable to access invalid index: 4: invalid index referenced",
    ),
    "index is not a number": (
        {"op": "add", "path": "/list/one", "value": 1},
        "error in add for path: '/list/one': value was not a proper array index: 'one': "
        'strconv.Atoi: parsing "one": invalid syntax',
    ),
    "index out of range": (
        {"op": "remove", "path": "/list/99999999999999999999"},
        "error in remove for path: '/list/99999999999999999999': "
        'strconv.Atoi: parsing "99999999999999999999": value out of range',
    ),
    "replace after the end": (
        {"op": "replace", "path": "/list/3", "value": 1},
        "replace operation does not apply: doc is missing key: /list/3: missing value",
    ),
    "move a missing key": (
        {"op": "move", "from": "/zz", "path": "/c"},
        "error in move for path: 'zz': Unable to remove nonexistent key: zz: missing value",
    ),
    "move without from": (
        {"op": "move", "path": "/c"},
        "move operation failed to decode from: operation, missing from field: missing value",
    ),
    "move into itself": (
        {"op": "move", "from": "/a", "path": "/a/c"},
        "move operation does not apply: doc is missing destination path: /a/c: missing value",
    ),
    "replace the document by a scalar": (
        {"op": "replace", "path": "", "value": 1},
        "replace operation value must be object or array: %!w(<nil>)",
    ),
    "unknown operation": ({"op": "increase", "path": "/a"}, "Unexpected kind: increase"),
    "no operation": ({"path": "/a"}, "Unexpected kind: unknown"),
    "no path": ({"op": "add", "value": 1}, "add operation failed to decode path: missing value"),
}


@pytest.mark.parametrize(("operation", "message"), REJECTED.values(), ids=REJECTED)
def test_rejected_operations(operation: dict[str, Any], message: str) -> None:
    with pytest.raises(p.RefusedPatch) as failure:
        p.apply_json_patch(DOCUMENT, [operation])
    assert str(failure.value) == message
    assert failure.value.as_api_error().status["details"] == {}


@pytest.mark.parametrize("value", [1.0, True, "1", None, 2], ids=str)
def test_failed_test_operation(value: Any) -> None:
    with pytest.raises(p.TestFailed, match="testing value /a/b failed: test failed"):
        p.apply_json_patch(DOCUMENT, [{"op": "test", "path": "/a/b", "value": value}])


def test_too_many_operations_are_rejected() -> None:
    test = {"op": "test", "path": "/none", "value": None}
    assert p.apply_json_patch(DOCUMENT, [test] * MAX_OPERATIONS) == DOCUMENT
    with pytest.raises(p.TooManyOperations) as failure:
        p.apply_json_patch(DOCUMENT, [test] * (MAX_OPERATIONS + 1))
    error = failure.value.as_api_error()
    message = "The allowed maximum operations in a JSON patch is 10000, got 10001"
    assert (error.code, error.message) == (413, f"Request entity too large: {message}")


def test_copies_cannot_grow_without_bound() -> None:
    """Each operation doubles a part of the document; the size of a copy is counted before it is made."""
    grow = [{"op": "copy", "from": "/a", "path": f"/a/copy{i}"} for i in range(40)]
    with pytest.raises(p.RefusedPatch, match="the accumulated size increase of copy is"):
        p.apply_json_patch(DOCUMENT, grow)


def test_many_operations_on_a_long_list_take_linear_time() -> None:
    """The list is copied once for all operations, not once for each."""
    operations = [{"op": "replace", "path": f"/{i}", "value": i} for i in range(MAX_OPERATIONS)]
    original, rest = [0] * 100_000, [0] * (100_000 - MAX_OPERATIONS)
    assert p.apply_json_patch(original, operations) == list(range(MAX_OPERATIONS)) + rest
    assert original == [0] * 100_000
    check_cost(lambda: p.apply_json_patch(original, operations))


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"op": "add"}, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ("add", "json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
        ([1], "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ],
)
def test_malformed_patches_are_rejected(patch: Any, message: str) -> None:
    with pytest.raises(p.MalformedPatch) as failure:
        p.check_json_patch(patch)
    error = failure.value.as_api_error()
    assert (error.code, error.message) == (400, f"error decoding patch: {message}")


def test_null_is_an_empty_patch() -> None:
    assert p.check_json_patch(None) == []


def test_unknown_fields_of_operations_are_named() -> None:
    operations = [{"op": "test", "path": ""}, {"op": "add", "colour": "red"}]
    assert p.unknown_parts(operations) == ['json patch unknown field "[1].colour"']
