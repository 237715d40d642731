"""`kubectl set resources`: change requests and limits of containers."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.pairs import parse_amounts
from sampan.kubectl.command_line.shared_options import dry_run_of
from sampan.kubectl.commands.set import check_all_and_selector, select_objects, set_options
from sampan.kubectl.errors import ErrorAggregate, KubectlError
from sampan.kubectl.objects.object_writer import ResultPrinter, record_change, record_option
from sampan.kubectl.objects.pod_template import apply_changes, check_local, containers_of, pod_spec_of
from sampan.kubectl.objects.targets import ResourceInfo


@click.command("resources", cls=KubectlCommand)
@set_options()
@record_option()
@click.option("-c", "--containers", default="*", metavar="NAME", help="Containers to change; may contain asterisks.")
@click.option("--limits", default="", metavar="RESOURCE=AMOUNT,...", help="Limits of each container.")
@click.option("--requests", default="", metavar="RESOURCE=AMOUNT,...", help="Requests of each container.")
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Change requests and limits of containers."""
    dry_run, printer = dry_run_of(options), ResultPrinter(options)
    infos = select_objects(factory, words, options)
    check_local(options, dry_run)
    check_all_and_selector(options)
    if not (options["limits"] or options["requests"]):
        raise KubectlError("you must specify an update to requests or limits (in the form of --requests/--limits)")
    amounts = {name: parse_amounts(options[name]) for name in ("limits", "requests") if options[name]}
    errors = ErrorAggregate()

    def change(value: dict[str, Any], info: ResourceInfo) -> None:
        containers = containers_of(pod_spec_of(value, info), options["containers"])
        for container in containers:
            resources = container.setdefault("resources", {})
            for name, amount in amounts.items():
                resources[name] = {**(resources.get(name) or {}), **amount}
        if not containers:
            errors.add(KubectlError(f"error: unable to find container named {options['containers']}"))
        record_change(value, options)

    apply_changes(
        infos,
        change,
        factory=factory,
        options=options,
        printer=printer,
        operation="resource requirements updated",
        failure="failed to patch resources update to pod template",
        errors=errors,
    )
