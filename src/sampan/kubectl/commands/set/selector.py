"""`kubectl set selector`: change the selector of a Service."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.shared_options import dry_run_of
from sampan.kubectl.commands.create.generator import label_selector
from sampan.kubectl.commands.set import select_objects, set_options
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.object_writer import (
    STRATEGIC,
    ObjectWriter,
    ResultPrinter,
    record_change,
    record_option,
)
from sampan.kubectl.objects.pod_template import compute_patches
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.machinery.cli_errors import CliError


@click.command("selector", cls=KubectlCommand)
@set_options(has_selector=False)
@record_option()
@click.option("--resource-version", default="", metavar="VERSION", help="Only change the object at this version.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Change the selector of services. The last word is the selector."""
    dry_run, printer = dry_run_of(options), ResultPrinter(options)
    if not words:
        raise KubectlError("one selector is required")
    *resources, text = words
    selector = label_selector(text)

    def change(value: dict[str, Any], info: ResourceInfo) -> None:
        if (info.kind.group, info.kind.kind) != ("", "Service"):
            raise CliError("setting a selector is only supported for Services")
        if expressions := selector.get("matchExpressions"):
            shown = " ".join(
                f"{{{part['key']} {part['operator']} [{' '.join(part.get('values') or ())}]}}" for part in expressions
            )
            raise CliError(f"match expression [{shown}] not supported on this object")
        value.setdefault("spec", {})["selector"] = selector.get("matchLabels") or {}
        if options["resource_version"]:
            value["metadata"]["resourceVersion"] = options["resource_version"]
        record_change(value, options)

    writer = ObjectWriter(session=factory.session, field_manager=options["field_manager"], dry_run=dry_run)
    errors = ErrorAggregate()
    infos = select_objects(factory, resources, options)
    for info, value, patch in compute_patches(infos, change):
        with errors.collect():
            if isinstance(patch, CliError):
                raise KubectlError(patch.message)
            if not (options["local"] or dry_run == "client"):
                value = writer.patch(info, patch, STRATEGIC)
            printer.print(value, "selector updated")
    errors.raise_any()
