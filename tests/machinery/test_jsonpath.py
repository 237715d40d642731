"""JSONPath as printer columns use it."""

from typing import Any

import pytest

from sampan.machinery.jsonpath import JsonPath, JsonPathError, text_of

VALUE: dict[str, Any] = {
    "a": {"b": [{"k": "x", "n": 1}, {"k": "y", "n": 2}, {"k": "z", "n": 3}]},
    "m": {"a.b": "dotted", "q": [1, 2, 3]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".a.b[0].k", ["x"]),
        (".a.b[-1].k", ["z"]),
        (".a.b[9].k", []),
        (".a.b[*].k", ["x", "y", "z"]),
        (".a.b[0:2].n", [1, 2]),
        (".a.b[::2].n", [1, 3]),
        (".a.b[0,2].n", [1, 3]),
        ('.a.b[?(@.k=="y")].n', [2]),
        (".a.b[?(@.n>1)].k", ["y", "z"]),
        (".a.b[?(@.none)].k", []),
        ('.a.b[?(@.n > "x")].k', []),
        (".m['a.b']", ["dotted"]),
        (".m.a\\.b", ["dotted"]),
        (".m['q','a.b']", [[1, 2, 3], "dotted"]),
        ("..n", [1, 2, 3]),
        (".m.*", ["dotted", [1, 2, 3]]),
        (".none.below", []),
        ("", [VALUE]),
    ],
)
def test_paths(path: str, expected: list[Any]) -> None:
    assert JsonPath(path).find(VALUE) == expected


@pytest.mark.parametrize("path", [".a[", ".a[x]", ".a[?(@.b]", ".a b", ".a[?(@.k==)]", ".a[]"])
def test_bad_paths(path: str) -> None:
    with pytest.raises(JsonPathError):
        JsonPath(path)


def test_values_as_text() -> None:
    assert [text_of(value) for value in ("a", 1, 1.5, True, {"b": [1]})] == ["a", "1", "1.5", "true", '{"b":[1]}']
