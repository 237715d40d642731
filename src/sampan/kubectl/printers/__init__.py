"""Output formats of kubectl: `-o json|yaml|kyaml|name|jsonpath=…|go-template=…|custom-columns=…` and tables.

There is one module per engine; `printer_for` chooses by the value of --output (`genericclioptions.PrintFlags`). Heavy
engines are imported when they are used.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from sampan.kubectl.command_line.flags import bool_flag, flag_group, string_flag
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.printers.objects import JsonPrinter, KyamlPrinter, NamePrinter, YamlPrinter, as_json, as_yaml

if TYPE_CHECKING:
    from sampan.kubectl.printers.go_template import Template
    from sampan.machinery.jsonpath import JsonPathTemplate

_JSONPATH = ("jsonpath", "jsonpath-as-json", "jsonpath-file")
_GO_TEMPLATE = ("go-template", "go-template-file", "template", "templatefile")
_CUSTOM_COLUMNS = ("custom-columns", "custom-columns-file")
OBJECT_FORMATS = ("json", "yaml", "kyaml", "name", *_GO_TEMPLATE, *_JSONPATH)
"""The formats of commands that print objects they changed."""
GET_FORMATS = (*OBJECT_FORMATS, *_CUSTOM_COLUMNS, "wide")


class Printer(Protocol):
    def print(self, value: dict[str, Any]) -> None:
        """Print an object or a list of objects to standard output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """The format in which a command prints objects."""

    format: str = string_flag("-o", "--output", metavar="FORMAT", help="Output format: {formats}.")
    template: str = string_flag("--template", metavar="TEMPLATE", help="Template, or its file, for -o go-template.")
    allow_missing_template_keys: bool = bool_flag(
        "--allow-missing-template-keys",
        default=True,
        help="Print nothing for missing fields in templates. True by default.",
    )
    show_managed_fields: bool = bool_flag("--show-managed-fields", help="Keep managedFields in JSON and YAML output.")

    def __bool__(self) -> bool:
        """Whether a format is chosen."""
        return bool(self.format or self.template)

    def printer(
        self,
        *,
        formats: tuple[str, ...] = OBJECT_FORMATS,
        operation: str = "",
        is_sorted: bool = True,
        has_headers: bool = True,
    ) -> Printer:
        return printer_for(
            self.format,
            template=self.template,
            allows_missing_keys=self.allow_missing_template_keys,
            shows_managed_fields=self.show_managed_fields,
            has_headers=has_headers,
            operation=operation,
            is_sorted=is_sorted,
            formats=formats,
        )


def output_flags(*, formats: tuple[str, ...] = OBJECT_FORMATS) -> OutputOptions:
    """Declare -o, --template, --allow-missing-template-keys and --show-managed-fields."""
    return flag_group(OutputOptions, formats=", ".join(formats))


def printer_for(
    output: str,
    *,
    template: str = "",
    allows_missing_keys: bool = True,
    shows_managed_fields: bool = False,
    has_headers: bool = True,
    operation: str = "",
    is_sorted: bool = True,
    formats: tuple[str, ...] = OBJECT_FORMATS,
) -> Printer:
    """Return the printer for the value of --output. If --output is not set, `operation` is printed after the
    object's name. JSON has sorted keys unless `is_sorted` is false.

    `formats` are the formats that the command allows. Any other format is an error that lists them.
    """
    if template and not output:
        output = "go-template"
    form, equals, text = output.partition("=")
    if equals and form not in (*_JSONPATH, *_GO_TEMPLATE, *_CUSTOM_COLUMNS):
        form = output
    lowered = form.lower()
    if lowered in ("json", "yaml", "kyaml") and lowered in formats:
        if lowered == "kyaml" and os.environ.get("KUBECTL_KYAML", "").lower() == "false":
            raise unknown_format(output, tuple(name for name in formats if name != "kyaml"))
        if lowered == "json":
            return JsonPrinter(shows_managed_fields, is_sorted)
        return YamlPrinter(shows_managed_fields) if lowered == "yaml" else KyamlPrinter(shows_managed_fields)
    if lowered in ("", "name") and "name" in formats:
        return NamePrinter("" if lowered else operation)
    if form not in formats:
        raise unknown_format(output, formats)
    if form in _CUSTOM_COLUMNS:
        return _custom_columns(form, template or text, has_headers)
    return _template_printer(form, template or text, allows_missing_keys)


def unknown_format(output: str, formats: tuple[str, ...]) -> KubectlError:
    from sampan.kubectl.command_line.flag_parser import quote_text

    names = ",".join(sorted(formats))
    return KubectlError(
        f"unable to match a printer suitable for the output format {quote_text(output)}, allowed formats are: {names}"
    )


def _custom_columns(form: str, text: str, has_headers: bool) -> Printer:
    from sampan.kubectl.printers.custom_columns import columns_from_file, columns_from_text

    if not text:
        raise KubectlError("custom-columns format specified but no custom columns given")
    if form == "custom-columns-file":
        return columns_from_file(text)
    return columns_from_text(text, has_headers=has_headers)


def _template_printer(form: str, text: str, allows_missing_keys: bool) -> Printer:
    if not text:
        raise KubectlError("template format specified but no template given")
    if form.endswith("file"):
        try:
            text = Path(text).read_text(errors="replace")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise KubectlError(f"error reading --template {text}, open {text}: {reason}") from None
    if form in _GO_TEMPLATE:
        return _go_template_printer(text, allows_missing_keys)
    from sampan.machinery.jsonpath import JsonPathError, JsonPathTemplate

    try:
        template = JsonPathTemplate(text, allows_missing_keys)
    except JsonPathError as error:
        raise KubectlError(f"error parsing jsonpath {text}, {error}") from None
    return JsonPathPrinter(template, is_json=form == "jsonpath-as-json")


@dataclass(slots=True)
class JsonPathPrinter:
    template: JsonPathTemplate
    is_json: bool = False

    def print(self, value: dict[str, Any]) -> None:
        from sampan.kubectl.command_line.flag_parser import quote_text
        from sampan.kubectl.printers.jsonpath import go_syntax, render_json
        from sampan.machinery.jsonpath import JsonPathError

        try:
            text = render_json(self.template, value) if self.is_json else self.template.render(value)
        except JsonPathError as error:
            raise KubectlError(
                f"error executing jsonpath {quote_text(self.template.text)}: Error executing template: {error}. "
                f"Printing more information for debugging the template:\n\ttemplate was:\n\t\t{self.template.text}\n"
                f"\tobject given to jsonpath engine was:\n\t\t{go_syntax(value)}\n\n\n"
            ) from None
        click.echo(text, nl=False)


@dataclass(slots=True)
class GoTemplatePrinter:
    template: Template

    def print(self, value: dict[str, Any]) -> None:
        from sampan.kubectl.command_line.flag_parser import quote_text
        from sampan.kubectl.printers.go_template import TemplateError

        try:
            text = self.template.render(value)
        except TemplateError as error:
            click.echo(error.output + self._diagnosis(value, error), nl=False)
            raise KubectlError(f"error executing template {quote_text(self.template.text)}: {error}") from None
        click.echo(text, nl=False)

    def _diagnosis(self, value: dict[str, Any], error: Exception) -> str:
        """Return kubectl's error output for a template that fails: the template and the object."""
        import msgspec

        from sampan.kubectl.printers.go_template import default_text

        data = msgspec.json.encode(value, order="sorted").decode()
        for char in "<>&":
            data = data.replace(char, f"\\u{ord(char):04x}")
        return (
            f"Error executing template: {error}. Printing more information for debugging the template:\n"
            f"\ttemplate was:\n\t\t{self.template.text}\n\traw data was:\n\t\t{data}\n"
            f"\tobject given to template engine was:\n\t\t{default_text(value)}\n\n"
        )


def _go_template_printer(text: str, allows_missing_keys: bool) -> Printer:
    from sampan.kubectl.printers.go_template import TemplateError, parse

    try:
        return GoTemplatePrinter(parse(text, is_missing_key_allowed=allows_missing_keys))
    except TemplateError as error:
        raise KubectlError(f"error parsing template {text}, {error}") from None


__all__ = [
    "GET_FORMATS",
    "OBJECT_FORMATS",
    "OutputOptions",
    "Printer",
    "as_json",
    "as_yaml",
    "output_flags",
    "printer_for",
]
