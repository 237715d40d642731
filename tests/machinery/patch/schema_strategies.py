"""Hypothesis strategies for small random schemas and values that match them."""

from typing import Any

from hypothesis import strategies as st

from sampan.api.schema.tree import Schema

WORDS = st.sampled_from(["x", "y", "z"])
SCALARS = st.one_of(WORDS, st.integers(0, 2), st.booleans(), st.sampled_from([0.5, 1.0]))
NAMES = ("a", "b", "c", "d")

TEXT = Schema(type="string")
MAP = Schema(type="object", additional=TEXT)
ATOMIC = Schema(type="array", items=TEXT)
WORD_SET = Schema(type="array", items=TEXT, list_type="set", patch_strategy=("merge",))


def schemas(*, retain_keys: bool = True) -> st.SearchStrategy[Schema]:
    """Draw object schemas with fields of all types that a strategic merge patch treats differently."""
    leaves = st.sampled_from([TEXT, Schema(), MAP, ATOMIC, WORD_SET])
    fields = st.recursive(leaves, lambda inner: _nest_schemas(inner, retain_keys), max_leaves=6)
    return st.dictionaries(st.sampled_from(NAMES), fields, min_size=1, max_size=4).map(object_of)


def object_of(properties: dict[str, Schema], **options: Any) -> Schema:
    return Schema(type="object", name="example.Thing", properties=properties, **options)


def _nest_schemas(inner: st.SearchStrategy[Schema], retain_keys: bool) -> st.SearchStrategy[Schema]:
    properties = st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3)
    kinds = [properties.map(object_of), properties.map(_replaced_object), properties.map(_keyed_list)]
    if retain_keys:
        kinds += [properties.map(_object_retaining_keys), properties.map(_keyed_list_retaining_keys)]
    return st.one_of(kinds)


def _replaced_object(properties: dict[str, Schema]) -> Schema:
    return object_of(properties, patch_strategy=("replace",))


def _object_retaining_keys(properties: dict[str, Schema]) -> Schema:
    return object_of(properties, patch_strategy=("retainKeys",))


def _keyed_list(properties: dict[str, Schema], *strategies: Any) -> Schema:
    items = object_of({**properties, "name": TEXT})
    return Schema(type="array", items=items, patch_key="name", patch_strategy=("merge", *strategies))


def _keyed_list_retaining_keys(properties: dict[str, Schema]) -> Schema:
    return _keyed_list(properties, "retainKeys")


_SCHEMAS, _SCHEMAS_WITHOUT_RETAIN_KEYS = schemas(), schemas(retain_keys=False)
_IS_PRESENT = st.booleans()
_STRING_MAPS = st.dictionaries(st.sampled_from(NAMES), WORDS, max_size=3)
_NAME_SETS = st.lists(st.sampled_from(NAMES), unique=True, max_size=4)
_ITEM_NAMES = st.lists(st.sampled_from(NAMES), unique=True, max_size=3)
_WORD_LISTS = st.lists(WORDS, max_size=3)


def _draw_value(draw: st.DrawFn, schema: Schema) -> Any:
    """Draw a value of a schema. The strategies are made once: to make one for each schema takes longer than to draw."""
    if schema.type == "object" and schema.properties:
        return {key: _draw_value(draw, part) for key, part in schema.properties.items() if draw(_IS_PRESENT)}
    if schema.type == "object":
        return draw(_STRING_MAPS)
    if schema is WORD_SET:
        return draw(_NAME_SETS)
    if schema.patch_key and schema.items:
        return [{**_draw_value(draw, schema.items), "name": name} for name in draw(_ITEM_NAMES)]
    return draw(_WORD_LISTS if schema.type == "array" else SCALARS if schema.type == "" else WORDS)


@st.composite
def schema_and_values(draw: st.DrawFn, count: int, *, retain_keys: bool = True) -> tuple[Any, ...]:
    """Draw a schema and `count` values of it."""
    schema = draw(_SCHEMAS if retain_keys else _SCHEMAS_WITHOUT_RETAIN_KEYS)
    return (schema, *(_draw_value(draw, schema) for _ in range(count)))


def without_strategies(schema: Schema) -> Schema:
    return Schema(
        type=schema.type,
        properties={key: without_strategies(part) for key, part in schema.properties.items()},
        additional=schema.additional,
        items=without_strategies(schema.items) if schema.items else None,
    )


DIRECTIVES = st.sampled_from(["$patch", "$retainKeys", *(f"${directive}/{name}" for name in NAMES for directive in
                              ("setElementOrder", "deleteFromPrimitiveList"))])  # fmt: skip
ANYTHING = st.recursive(
    st.none() | SCALARS | st.sampled_from(["replace", "delete", "merge"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "name"]) | DIRECTIVES, inner, max_size=3)
    ),
    max_leaves=12,
)
PATCHES = st.dictionaries(st.sampled_from(NAMES) | DIRECTIVES, ANYTHING, max_size=4)
"""Patches with many directives, valid and invalid."""
