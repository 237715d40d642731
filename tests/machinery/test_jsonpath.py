"""JSONPath templates."""

from typing import Any

import pytest

from sampan.machinery.jsonpath import JsonPathError, JsonPathTemplate, text_of

POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app.io/name": "x"}, "empty": None},
    "spec": {
        "containers": [
            {"name": "main", "image": "nginx", "ports": [80, 443]},
            {"name": "side", "image": "busybox", "args": ["a"]},
        ],
        "ratio": 0.5,
        "isReady": True,
    },
}


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("{.kind}", "Pod"),
        ("a {.kind} b", "a Pod b"),
        ("{$.kind}{@.kind}", "PodPod"),
        ("{.metadata.labels.app\\.io/name}", "x"),
        ("{.metadata['name']}", "web"),
        ("{.missing.field}", ""),
        ("{.metadata.empty}", "null"),
        ("{.spec.ratio} {.spec.isReady}", "0.5 true"),
        ("{.spec.containers[*].name}", "main side"),
        ("{.spec.containers[-1].name}", "side"),
        ("{.spec.containers[0:1].name}", "main"),
        ("{.spec.containers[::2].name}", "main"),
        ("{.spec.containers[0,1].image}", "nginx busybox"),
        ("{.spec.containers[0]['name','image']}", "main nginx"),
        ('{.spec.containers[?(@.name=="side")].image}', "busybox"),
        ("{.spec.containers[?(@.args)].name}", "side"),
        ("{.spec.containers[0].ports}", "[80,443]"),
        ("{.spec.containers[0].ports[?(@ > 100)]}", "443"),
        ("{..image}", "nginx busybox"),
        ('{range .spec.containers[*]}{.name}{"\\n"}{end}', "main\nside\n"),
        ("{range .spec.none[*]}{.name}{end}done", "done"),
        ("{range .spec.containers[*]}[{range .ports[*]}{@},{end}]{end}", "[80,443,][]"),
        ("{.metadata.labels}", '{"app.io/name":"x"}'),
    ],
)
def test_render(text: str, output: str) -> None:
    assert JsonPathTemplate(text).render(POD) == output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{.a", "unclosed action"),
        ("{.a[", "unterminated array"),
        ("{.a[x]}", "invalid array index x"),
        ('{"a}', "unterminated quoted string"),
        ("{.a[?(@.b}", "unterminated filter"),
        ("{.a[?(@.k==)]}", "unrecognized character in action: U+003D '='"),
        ("{%}", "unrecognized character in action: U+0025 '%'"),
        ("{.......}", "invalid multiple recursive descent"),
    ],
)
def test_syntax_errors(text: str, message: str) -> None:
    with pytest.raises(JsonPathError) as raised:
        JsonPathTemplate(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{end}", "not in range, nothing to end"),
        ("{nonsense}", "unrecognized identifier nonsense"),
        ("{.spec.containers[5]}", "array index out of bounds: index 5, length 2"),
        ("{.kind[0]}", "string is not array or slice"),
    ],
)
def test_execution_errors(text: str, message: str) -> None:
    with pytest.raises(JsonPathError) as raised:
        JsonPathTemplate(text).render(POD)
    assert str(raised.value) == message


def test_missing_key_is_an_error_unless_allowed() -> None:
    with pytest.raises(JsonPathError, match="missing is not found"):
        JsonPathTemplate("{.missing}", allows_missing_keys=False).render(POD)


VALUE: dict[str, Any] = {
    "a": {"b": [{"k": "x", "n": 1}, {"k": "y", "n": 2}, {"k": "z", "n": 3}]},
    "m": {"a.b": "dotted", "q": [1, 2, 3]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".a.b[0].k", ["x"]),
        (".a.b[-1].k", ["z"]),
        (".a.b[*].k", ["x", "y", "z"]),
        (".a.b[0:2].n", [1, 2]),
        (".a.b[::2].n", [1, 3]),
        (".a.b[0,2].n", [1, 3]),
        ('.a.b[?(@.k=="y")].n', [2]),
        (".a.b[?(@.n>1)].k", ["y", "z"]),
        (".a.b[?(@.none)].k", []),
        (".m['a\\.b']", ["dotted"]),
        (".m.a\\.b", ["dotted"]),
        (".m['q','a\\.b']", [[1, 2, 3], "dotted"]),
        ("..n", [1, 2, 3]),
        (".m.*", ["dotted", [1, 2, 3]]),
        (".none.below", []),
        ("", [VALUE]),
    ],
)
def test_find(path: str, expected: list[Any]) -> None:
    assert JsonPathTemplate(f"{{{path}}}").find(VALUE)[0] == expected


def test_values_as_text() -> None:
    assert [text_of(value) for value in ("a", 1, 1.5, True, {"b": [1]})] == ["a", "1", "1.5", "true", '{"b":[1]}']
