"""Templates whose output and errors were recorded with Go's text/template, and limits of rendering."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sampan.cli.kubectl.printers.go_template import TemplateError, parse, render

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
    "template",
    [
        '{{define "R"}}{{template "R"}}{{end}}{{template "R"}}',
        "{{range 1000}}{{range 1000}}{{range 1000}}{{end}}{{end}}{{end}}",
        "{{range 9999999999}}x{{end}}",
        "{{" + "(" * 20_000 + "1" + ")" * 20_000 + "}}",
        '{{printf "%99999999d" 1}}{{foo}}',
    ],
)
def test_unbounded_templates_are_rejected(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, {})
