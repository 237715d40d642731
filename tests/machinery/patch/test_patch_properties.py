"""Properties of all patches of schema trees."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sampan.api.schema.tree import Schema, copy_value
from sampan.machinery import patch as p
from sampan.machinery.patch.errors import are_identical

from .schema_strategies import ANYTHING, PATCHES, schema_and_values, without_strategies

Object = dict[str, Any]


@given(schema_and_values(2))
def test_a_diff_applied_gives_the_target(drawn: tuple[Schema, Object, Object]) -> None:
    schema, original, target = drawn
    assert are_identical(p.apply_strategic_patch(original, p.strategic_diff(original, target, schema), schema), target)
    assert are_identical(p.apply_merge_patch(original, p.merge_diff(original, target)), target)
    assert are_identical(p.apply_json_patch(original, p.json_diff(original, target)), target)


@given(st.lists(ANYTHING), st.lists(ANYTHING))
def test_json_diff_of_arbitrary_lists_gives_the_target(original: list[Any], target: list[Any]) -> None:
    assert are_identical(p.apply_json_patch(original, p.json_diff(original, target)), target)


@given(schema_and_values(1))
def test_diff_of_an_object_with_itself_is_empty(drawn: tuple[Schema, Object]) -> None:
    schema, value = drawn
    assert p.strategic_diff(value, value, schema) == {}
    assert p.three_way_strategic_diff(value, value, value, schema) == {}
    assert p.merge_diff(value, value) == {}
    assert p.three_way_merge_diff(value, value, value) == {}
    assert p.json_diff(value, value) == []


@given(schema_and_values(1))
def test_an_empty_patch_changes_nothing(drawn: tuple[Schema, Object]) -> None:
    schema, value = drawn
    assert are_identical(p.apply_strategic_patch(value, {}, schema), value)
    assert are_identical(p.apply_merge_patch(value, {}), value)
    assert are_identical(p.apply_json_patch(value, []), value)


@given(schema_and_values(2))
def test_a_strategic_patch_without_strategies_is_a_merge_patch(drawn: tuple[Schema, Object, Object]) -> None:
    schema, original, target = drawn
    plain = without_strategies(schema)
    patch = p.merge_diff(original, target)
    assert are_identical(p.apply_strategic_patch(original, patch, plain), p.apply_merge_patch(original, patch))
    assert are_identical(p.strategic_diff(original, target, plain), patch)


@settings(max_examples=300)
@given(schema_and_values(1), PATCHES)
def test_patches_keep_their_arguments_and_raise_only_patch_errors(drawn: tuple[Schema, Object], patch: Object) -> None:
    schema, value = drawn
    before, patch_before = copy_value(value), copy_value(patch)
    for attempt in (
        lambda: p.apply_strategic_patch(value, patch, schema),
        lambda: p.join_strategic_patches(value, patch, schema),
        lambda: p.apply_merge_patch(value, patch),
        lambda: p.strategic_diff(value, patch, schema),
        lambda: p.three_way_strategic_diff(value, patch, value, schema),
    ):
        with suppress(p.PatchError):
            attempt()
        assert are_identical(value, before)
        assert are_identical(patch, patch_before)


KEYS = st.sampled_from(["a", "b", "name", "0", "1", "-1", "-", "x/y", "~"])
POINTERS = st.lists(KEYS, max_size=4).map(
    lambda keys: "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)
)
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "other"])},
    optional={"path": POINTERS | st.none(), "from": POINTERS | st.integers(), "value": ANYTHING},
)


@settings(max_examples=300)
@given(ANYTHING.filter(lambda value: isinstance(value, dict | list)), st.lists(OPERATIONS, max_size=5))
def test_json_patches_keep_their_arguments_and_raise_only_patch_errors(document: Any, operations: list[Any]) -> None:
    before, operations_before = copy_value(document), copy_value(operations)
    with suppress(p.PatchError):
        p.apply_json_patch(document, p.check_json_patch(operations))
    assert are_identical(document, before)
    assert are_identical(operations, operations_before)


@settings(max_examples=200)
@given(schema_and_values(3, retain_keys=False))
def test_three_way_diff_keeps_other_fields_of_the_current_object(drawn: tuple[Schema, Object, Object, Object]) -> None:
    schema, original, modified, current = drawn
    patch = p.three_way_strategic_diff(original, modified, current, schema)
    _check_three_way(drawn, p.apply_strategic_patch(current, patch, schema))
    merged = p.apply_merge_patch(current, p.three_way_merge_diff(original, modified, current))
    _check_three_way((without_strategies(schema), original, modified, current), merged)


def _check_three_way(drawn: tuple[Schema, Object, Object, Object], result: Any) -> None:
    """Check the result of a three-way patch. Fields that were dropped inside of new items are an exception: kubectl
    leaves their deletions in the items."""
    schema, original, modified, current = drawn
    kept = set(nodes(modified, schema))
    dropped = set(nodes(original, schema)) - kept
    recreated = kept - set(nodes(current, schema))
    if not any(is_below(path, recreated) for path in dropped):
        expected = {path: leaf for path, leaf in leaves(current, schema).items() if not is_below(path, dropped)}
        assert leaves(drop_nulls_and_directives(result), schema) == expected | leaves(modified, schema)


Path = tuple[Any, ...]


def children(value: Any, schema: Schema) -> list[tuple[Any, Any, Schema]] | None:
    """Return the parts of a value that are patched separately, or None if it is replaced as a whole."""
    if isinstance(value, dict) and "replace" not in schema.patch_strategy:
        return [(key, part, schema.child(key) or Schema()) for key, part in value.items()]
    if isinstance(value, list) and "merge" in schema.patch_strategy and schema.items:
        if schema.patch_key:
            return [(item[schema.patch_key], item, schema.items) for item in value]
        return [(item, item, schema.items) for item in value]
    return None


def nodes(value: Any, schema: Schema, path: Path = ()) -> Iterator[Path]:
    for key, part, below in children(value, schema) or ():
        yield (*path, key)
        yield from nodes(part, below, (*path, key))


def leaves(value: Any, schema: Schema, path: Path = ()) -> dict[Path, Any]:
    parts = children(value, schema)
    if parts is None:
        return {path: value}
    values_by_path: dict[Path, Any] = {}
    for key, part, below in parts:
        values_by_path |= leaves(part, below, (*path, key))
    return values_by_path


def is_below(path: Path, nodes: set[Path]) -> bool:
    return any(path[:i] in nodes for i in range(1, len(path) + 1))


@given(schema_and_values(3))
def test_a_second_apply_changes_nothing(drawn: tuple[Schema, Object, Object, Object]) -> None:
    schema, original, modified, current = drawn
    patch = p.three_way_strategic_diff(original, modified, current, schema)
    result = drop_nulls_and_directives(p.apply_strategic_patch(current, patch, schema))
    again = p.three_way_strategic_diff(modified, modified, result, schema)
    assert are_identical(drop_nulls_and_directives(p.apply_strategic_patch(result, again, schema)), result)


def drop_nulls_and_directives(value: Any) -> Any:
    """Return the value without nulls and unknown fields: directives inside new items stay, and are lost in decoding."""
    if isinstance(value, dict):
        return {
            key: drop_nulls_and_directives(part) for key, part in value.items() if part is not None and key[0] != "$"
        }
    return [drop_nulls_and_directives(item) for item in value] if isinstance(value, list) else value
