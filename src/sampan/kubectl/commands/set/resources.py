"""`kubectl set resources`: change requests and limits of containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command import KubectlCommand
from sampan.kubectl.command_line.flags import string_flag
from sampan.kubectl.command_line.pairs import parse_amounts
from sampan.kubectl.command_line.shared_flags import check_all_and_selectors, check_local, dry_run_strategy, record_flag
from sampan.kubectl.commands.set.feature_change import SelectingSetOptions, apply_changes, select_objects
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.object_writer import record_change
from sampan.kubectl.objects.pod_template import containers_of, pod_spec_of
from sampan.kubectl.objects.targets import ResourceInfo
from sampan.kubectl.printers.results import ResultPrinter


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesOptions(SelectingSetOptions):
    record: bool = record_flag()
    containers: str = string_flag(
        "-c", "--containers", default="*", metavar="NAME", help="Containers to change; may contain asterisks."
    )
    limits: str = string_flag("--limits", metavar="RESOURCE=AMOUNT,...", help="Limits of each container.")
    requests: str = string_flag("--requests", metavar="RESOURCE=AMOUNT,...", help="Requests of each container.")


@KubectlCommand.define("resources", ResourcesOptions)
def command(factory: Factory, options: ResourcesOptions) -> None:
    """Change requests and limits of containers."""
    dry_run = dry_run_strategy(options.dry_run)
    printer = ResultPrinter(options.output, dry_run)
    infos = select_objects(factory, options.words, options)
    check_local(options.local, dry_run)
    check_all_and_selectors(options.selects_all, options.selector)
    if not (options.limits or options.requests):
        raise KubectlError("you must specify an update to requests or limits (in the form of --requests/--limits)")
    texts = {"limits": options.limits, "requests": options.requests}
    amounts = {name: parse_amounts(text) for name, text in texts.items() if text}
    errors = ErrorAggregate()

    def change(value: dict[str, Any], info: ResourceInfo) -> None:
        containers = containers_of(pod_spec_of(value, info), options.containers)
        for container in containers:
            resources = container.setdefault("resources", {})
            for name, amount in amounts.items():
                resources[name] = {**(resources.get(name) or {}), **amount}
        if not containers:
            errors.add(KubectlError(f"error: unable to find container named {options.containers}"))
        record_change(value, options.record)

    apply_changes(
        infos,
        change,
        factory=factory,
        options=options,
        dry_run=dry_run,
        printer=printer,
        operation="resource requirements updated",
        failure="failed to patch resources update to pod template",
        errors=errors,
    )
