"""Random values of a schema in canonical form, for property tests."""

from typing import Any

from hypothesis import strategies as st

from sampan.api.schema.tree import Schema

WORDS = st.sampled_from(["a", "b-c", "x.y/z", "ü", "<&>", "hello world"])
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "quantity": st.sampled_from(["0", "1", "100m", "1536Mi", "1e3"]),
    "int-or-string": st.integers(0, 100) | st.sampled_from(["25%", "http"]),
    "date-time": st.sampled_from(["2026-01-02T03:04:05Z", "1999-12-31T23:59:59Z"]),
    "micro-time": st.sampled_from(["2026-01-02T03:04:05.000006Z", "1999-12-31T23:59:59.999999Z"]),
    "byte": st.sampled_from(["aGk=", "AAEC", "/+8="]),
}
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "string": WORDS,
    "integer": st.integers(1, 2**31 - 1),
    "number": st.sampled_from([0.5, 2.25]),
    "boolean": st.just(True),
}


@st.composite
def values(draw: st.DrawFn, schema: Schema, depth: int = 5, fields: int = 4) -> Any:
    """Draw a value of the schema, at most `depth` objects deep, with at most `fields` fields in each."""
    if schema.preserve_unknown:
        return draw(st.sampled_from([{"a": 1}, {"b": {"c": ["d", None, 2.5]}}]))
    if schema.format in SCALARS:
        return draw(SCALARS[schema.format])
    if schema.properties:
        names = sorted(set(schema.properties) - {"kind", "apiVersion"}) if depth else []
        chosen = draw(st.lists(st.sampled_from(names), max_size=fields, unique=True)) if names else []
        return {name: draw(values(schema.properties[name], depth - 1, fields)) for name in chosen}
    if schema.additional is not None:
        return draw(st.dictionaries(WORDS, values(schema.additional, max(depth - 1, 0), fields), max_size=2))
    if schema.items is not None:
        return draw(st.lists(values(schema.items, max(depth - 1, 0), fields), max_size=2))
    return draw(TYPES.get(schema.type, st.just({})))
