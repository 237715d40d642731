"""Go templates (text/template) with the functions that kubectl adds, for `-o go-template`.

The engine works on JSON values and prints the error texts of Go. It runs in this process with bounded work: a template
stops with an error after a fixed number of steps, and deep recursion is an error, so that no template can hang a
command.
"""

from __future__ import annotations

from typing import Any

from sampan.kubectl.printers.go_template.execution import Template
from sampan.kubectl.printers.go_template.values import TemplateError, default_text

NAME = "output"
"""The name that kubectl gives its templates; it appears in error messages."""


def parse(text: str, *, is_missing_key_allowed: bool = True) -> Template:
    """Parse a template. Raise TemplateError with Go's text."""
    return Template(name=NAME, text=text, is_missing_key_allowed=is_missing_key_allowed)


def render(template: str, value: Any) -> str:
    """Return the output of a template for a JSON value. Raise TemplateError with Go's text."""
    return parse(template).render(value)


__all__ = ["Template", "TemplateError", "default_text", "parse", "render"]
