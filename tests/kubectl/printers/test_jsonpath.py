"""JSONPath expressions of flags."""

import pytest

from sampan.kubectl.printers.jsonpath import go_syntax, normalize_path


@pytest.mark.parametrize("text", ["metadata.name", ".metadata.name", "{metadata.name}", "{.metadata.name}"])
def test_relaxed_adds_braces_and_leading_dot(text: str) -> None:
    assert normalize_path(text) == "{.metadata.name}"


def test_go_syntax() -> None:
    value = {"b": [1, None], "a": "x"}
    assert go_syntax(value) == 'map[string]interface {}{"a":"x", "b":[]interface {}{1, interface {}(nil)}}'
