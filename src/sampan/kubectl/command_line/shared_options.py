"""Flags that several commands share, each defined once (`cmd/util/helpers.go`, `genericclioptions`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from sampan.kubectl.command_line.flag_parser import STRING_SLICE
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.manifests import FilenameFlags
from sampan.kubectl.printers import OBJECT_FORMATS, Printer, printer_for

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def combine_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options. The help shows them in the order of the arguments."""
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), reversed(options), command)


def filename_options(action: str, *, has_kustomize: bool = True) -> Decorator:
    """Return a decorator that adds -f, -k and -R, which `filename_flags` reads. `action` completes the help text: "to
    create"."""
    options = [
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            type=STRING_SLICE,
            metavar="FILE",
            help=f"File, directory, URL or - (standard input) with the objects {action}.",
        ),
        click.option("-R", "--recursive", is_flag=True, help="Process the directories of -f recursively."),
    ]
    if has_kustomize:
        options.insert(
            1, click.option("-k", "--kustomize", default="", metavar="DIR", help="Directory with a kustomization.")
        )
    return combine_options(*options)


def filename_flags(options: Mapping[str, Any]) -> FilenameFlags:
    return FilenameFlags(options["files"], options.get("kustomize", ""), options["recursive"])


def selector_option(help: str = "Label selector to filter by, for example app=web,tier!=cache.") -> Decorator:
    return click.option("-l", "--selector", default="", metavar="SELECTOR", help=help)


def field_selector_option() -> Decorator:
    return click.option(
        "--field-selector", default="", metavar="SELECTOR", help="Field selector, for example status.phase=Running."
    )


def all_namespaces_option() -> Decorator:
    return click.option("-A", "--all-namespaces", is_flag=True, help="Work on the objects of all namespaces.")


def output_options(*, formats: tuple[str, ...] = OBJECT_FORMATS) -> Decorator:
    """Return a decorator that adds -o, --template, --allow-missing-template-keys and --show-managed-fields, which
    `printer_of` reads."""
    return combine_options(
        click.option("-o", "--output", default="", metavar="FORMAT", help=f"Output format: {', '.join(formats)}."),
        click.option("--template", default="", metavar="TEMPLATE", help="Template, or its file, for -o go-template."),
        click.option(
            "--allow-missing-template-keys",
            is_flag=True,
            default=True,
            help="Print nothing for missing fields in templates. True by default.",
        ),
        click.option("--show-managed-fields", is_flag=True, help="Keep managedFields in JSON and YAML output."),
    )


def printer_of(
    options: Mapping[str, Any],
    *,
    formats: tuple[str, ...] = OBJECT_FORMATS,
    operation: str = "",
    is_sorted: bool = True,
) -> Printer:
    """Return the printer that the flags of `output_options` choose."""
    return printer_for(
        options["output"],
        template=options["template"],
        allows_missing_keys=options["allow_missing_template_keys"],
        shows_managed_fields=options["show_managed_fields"],
        operation=operation,
        is_sorted=is_sorted,
        formats=formats,
    )


def dry_run_option() -> Decorator:
    """Return a decorator that adds --dry-run, whose value `dry_run_of` checks."""
    return click.option(
        "--dry-run",
        default="none",
        is_flag=False,
        flag_value="unchanged",
        metavar="none|server|client",
        help="With client, only print the object that would be sent; with server, send it without storing it.",
    )


def dry_run_of(options: Mapping[str, Any]) -> str:
    """Return `none`, `client` or `server`. A boolean value, and the flag without one, are deprecated forms."""
    from sampan.kubectl.command_line.flag_parser import ValueSyntaxError, parse_bool

    value = str(options["dry_run"])
    if value in ("none", "client", "server"):
        return value
    try:
        return "client" if value == "unchanged" or parse_bool(value) else "none"
    except ValueSyntaxError:
        raise KubectlError(f'Invalid dry-run value ({value}). Must be "none", "server", or "client".') from None


def field_manager_option(default: str) -> Decorator:
    return click.option(
        "--field-manager", default=default, metavar="NAME", help="Name of the manager that owns the changed fields."
    )


def validate_option() -> Decorator:
    """Return a decorator that adds --validate, whose value `validation_of` checks."""
    return click.option(
        "--validate",
        default="strict",
        is_flag=False,
        flag_value="strict",
        metavar="strict|warn|ignore",
        help="Whether the server rejects unknown and duplicate fields, warns about them, or ignores them.",
    )


def validation_of(options: Mapping[str, Any]) -> str:
    """Return the fieldValidation parameter of requests: Strict, Warn or Ignore."""
    from sampan.kubectl.command_line.flag_parser import ValueSyntaxError, parse_bool, quote_text

    value = str(options["validate"])
    if value in ("strict", "warn", "ignore"):
        return value.capitalize()
    try:
        return "Strict" if parse_bool(value) else "Ignore"
    except ValueSyntaxError:
        raise KubectlError(
            f"invalid - validate option {quote_text(value)}; must be one of: strict (or true), warn, ignore (or false)"
        ) from None


def chunk_size_option() -> Decorator:
    return click.option(
        "--chunk-size",
        type=click.INT,
        default=500,
        metavar="N",
        help="Number of objects in each request for a list; 0 requests all at once.",
    )


def subresource_option(help: str) -> Decorator:
    return click.option("--subresource", default="", metavar="NAME", help=help)


def override_options() -> Decorator:
    """Return a decorator that adds --overrides and --override-type: a patch of the generated object, which
    `with_overrides` applies."""
    overrides = click.option(
        "--overrides", default="", metavar="JSON", help="Patch of the generated object, for fields without a flag."
    )
    kind = click.option(
        "--override-type", default="merge", metavar="json|merge|strategic", help="Type of the patch in --overrides."
    )
    return combine_options(overrides, kind)


def with_overrides(value: dict[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object after the patch of --overrides."""
    if not options["overrides"]:
        return value
    from sampan.api.codec import yaml
    from sampan.kubectl.objects.patch_metadata import built_in_schema
    from sampan.machinery import patch as patches

    try:
        patch = yaml.decode(options["overrides"].encode()).value
        if options["override_type"] == "json":
            result: dict[str, Any] = patches.apply_json_patch(value, patches.check_json_patch(patch))
            return result
        if options["override_type"] == "strategic":
            schema = built_in_schema(value["apiVersion"], value["kind"])
            assert schema is not None
            return patches.apply_strategic_patch(value, patches.check_strategic_patch(patch), schema)
        if options["override_type"] == "merge":
            return patches.apply_merge_patch(value, patches.check_merge_patch(patch))
    except (patches.PatchError, yaml.YamlError) as error:
        raise KubectlError(f"{error}") from None
    raise KubectlError(f"invalid override type: {options['override_type']}")
