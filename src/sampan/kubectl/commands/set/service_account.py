"""`kubectl set serviceaccount`: change the service account of pods."""

from __future__ import annotations

from typing import Any

import click

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.command_line.command import KubectlCommand
from sampan.kubectl.command_line.shared_options import dry_run_of
from sampan.kubectl.commands.set import select_objects, set_options
from sampan.kubectl.errors import KubectlError
from sampan.kubectl.objects.object_writer import ResultPrinter, record_change, record_option
from sampan.kubectl.objects.pod_template import apply_changes, check_local, pod_spec_of
from sampan.kubectl.objects.targets import ResourceInfo


@click.command("serviceaccount", cls=KubectlCommand, aliases=("sa",))
@set_options(has_selector=False)
@record_option()
@click.pass_obj
def command(factory: Factory, /, words: tuple[str, ...], **options: Any) -> None:
    """Change the service account of a workload's pods. The last word is its name."""
    check_local(options, dry_run_of(options))
    printer = ResultPrinter(options)
    if not words:
        raise KubectlError("serviceaccount is required")
    *resources, name = words

    def change(value: dict[str, Any], info: ResourceInfo) -> None:
        pod_spec = pod_spec_of(value, info)
        pod_spec["serviceAccountName"] = name
        record_change(value, options)

    apply_changes(
        select_objects(factory, () if options["local"] else resources, options),
        change,
        factory=factory,
        options=options,
        printer=printer,
        operation="serviceaccount updated",
        failure="failed to patch ServiceAccountName",
        sends_empty=True,
    )
