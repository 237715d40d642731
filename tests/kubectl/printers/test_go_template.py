"""Templates whose output and errors were recorded with Go's text/template, and limits of rendering."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sampan.kubectl.printers.go_template import TemplateError, execution, parse, render

RECORDED = json.loads((Path(__file__).parent / "data" / "go_templates.json").read_text())


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: case["template"][:60])
def test_same_output_and_error_as_go(case: dict[str, Any]) -> None:
    error = ""
    try:
        output = render(case["template"], RECORDED["value"])
    except TemplateError as failure:
        output, error = failure.output, str(failure)
    assert (output, error) == (case["output"], case["error"])


def test_missing_key_is_an_error_when_not_allowed() -> None:
    with pytest.raises(TemplateError, match='map has no entry for key "b"'):
        parse("{{.a.b}}", is_missing_key_allowed=False).render({"a": {}})


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ('{{define "R"}}{{template "R"}}{{end}}{{template "R"}}', "exceeded maximum template depth"),
        ("{{range 1000}}{{range 1000}}{{range 1000}}{{end}}{{end}}{{end}}", "exceeded maximum number of steps (20000)"),
        ("{{range 9999999999}}x{{end}}", "exceeded maximum number of steps (20000)"),
        ("{{" + "(" * 20_000 + "1" + ")" * 20_000 + "}}", "max expression depth exceeded"),
    ],
    ids=["recursion", "nested-ranges", "long-range", "parentheses"],
)
def test_unbounded_templates_are_rejected(monkeypatch: pytest.MonkeyPatch, template: str, message: str) -> None:
    monkeypatch.setattr(execution, "_MAX_STEPS", 20_000)
    with pytest.raises(TemplateError, match=re.escape(message)):
        render(template, {})


@pytest.mark.parametrize(
    ("template", "output"),
    [
        ('{{printf "a%99999999d b %d" 1 2}}', "a%!(NOVERB)%!(EXTRA int=1, int=2)"),
        ('{{printf "%10000010d" 1}}', "%!(NOVERB)%!(EXTRA int=1)"),
        ('{{printf "%10000009d" 1 | len}}', "10000009"),
        ('{{printf "%0000000000005d|" 1}}', "00001|"),
        ('{{printf "%.99999999f|" 1.5}}', "%!(NOVERB)%!(EXTRA float64=1.5)"),
        ('{{printf "%5.0000000000002f|" 1.5}}', " 1.50|"),
        ('{{printf "%*.99999999f" 5000000 1.5}}', "%!(BADWIDTH)%!(NOVERB)%!(EXTRA float64=1.5)"),
        ('{{printf "%*d" 1000001 1}}', "%!(BADWIDTH)1"),
        ('{{printf "%.*f" 1000001 1.5}}', "%!(BADPREC)1.500000"),
    ],
)
def test_too_large_widths_and_precisions_give_the_same_output_as_go(template: str, output: str) -> None:
    """The outputs are those of text/template of Go 1.26."""
    assert render(template, {}) == output
