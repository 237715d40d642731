"""JSONPath templates."""

from typing import Any

import pytest

from sampan.cli.kubectl.printers.jsonpath import JsonPathTemplate, TemplatePathError, relaxed

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
        ("{%}", "unrecognized character in action: U+0025 '%'"),
        ("{.......}", "invalid multiple recursive descent"),
    ],
)
def test_syntax_errors(text: str, message: str) -> None:
    with pytest.raises(TemplatePathError) as raised:
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
    with pytest.raises(TemplatePathError) as raised:
        JsonPathTemplate(text).render(POD)
    assert str(raised.value) == message


def test_missing_keys_may_be_errors() -> None:
    with pytest.raises(TemplatePathError, match="missing is not found"):
        JsonPathTemplate("{.missing}", allows_missing_keys=False).render(POD)


@pytest.mark.parametrize("text", ["metadata.name", ".metadata.name", "{metadata.name}", "{.metadata.name}"])
def test_relaxed(text: str) -> None:
    assert relaxed(text) == "{.metadata.name}"
