"""`kubectl set selector`: change the selector of a Service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import string_flag
from sampan.kubectl.command_line.shared_flags import dry_run_strategy, record_flag
from sampan.kubectl.commands.create.generator import label_selector
from sampan.kubectl.commands.set.feature_change import SetOptions, select_objects
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.object_writer import STRATEGIC, ObjectWriter, record_change
from sampan.kubectl.objects.pod_template import compute_patches
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers.results import ResultPrinter
from sampan.machinery.cli_errors import CliError


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorOptions(SetOptions):
    record: bool = record_flag()
    resource_version: str = string_flag(
        "--resource-version", metavar="VERSION", help="Only change the object at this version."
    )


@KubectlCommand.define("selector", SelectorOptions)
def command(factory: Factory, options: SelectorOptions) -> None:
    """Change the selector of services. The last word is the selector."""
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, dry_run)
    if not options.words:
        raise KubectlError("one selector is required")
    *resources, text = options.words
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
        if options.resource_version:
            value["metadata"]["resourceVersion"] = options.resource_version
        record_change(value, options.record)

    writer = ObjectWriter(session=factory.session, field_manager=options.field_manager, dry_run=dry_run)
    errors = ErrorAggregate()
    infos = select_objects(factory, resources, options)
    for info, value, patch in compute_patches(infos, change):
        with errors.collect():
            if isinstance(patch, CliError):
                raise KubectlError(patch.message)
            if not (options.local or dry_run == "client"):
                value = writer.patch(info, patch, STRATEGIC)
            printer.print(value, "selector updated")
    errors.raise_any()
