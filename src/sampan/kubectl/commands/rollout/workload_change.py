"""A change of workloads by a patch, for pause, resume and restart."""

from __future__ import annotations

from sampan.kubectl.client.factory import Factory
from sampan.kubectl.commands.rollout.rollout_resources import RolloutOptions, report_no_resources, rollout_builder
from sampan.kubectl.errors import ErrorAggregate, KubectlError, ServerError
from sampan.kubectl.objects.object_writer import STRATEGIC, ObjectWriter
from sampan.kubectl.objects.pod_template import Change, compute_patches
from sampan.kubectl.printers import OutputOptions
from sampan.kubectl.printers.results import ResultPrinter
from sampan.machinery.cli_errors import CliError


def change_workloads(
    factory: Factory,
    options: RolloutOptions,
    change: Change,
    *,
    output: OutputOptions,
    field_manager: str,
    operation: str,
    unchanged: str,
) -> None:
    """Change each workload and report it. `unchanged` is the report for a workload that already has the change; if it
    is empty, such a workload is an error."""
    builder = rollout_builder(factory, options)
    printer = ResultPrinter(output, "none")
    errors = ErrorAggregate()
    infos = list(builder.infos(errors))
    if not infos:
        report_no_resources(factory, errors)
    writer = ObjectWriter(session=factory.session, field_manager=field_manager)
    for info, value, patch in compute_patches(infos, change):
        if isinstance(patch, CliError):
            errors.add(KubectlError(f'error: {info.kind.group_resource} "{info.name}" {patch.message}'))
        elif patch:
            try:
                printer.print(writer.patch(info, patch, STRATEGIC), operation)
            except ServerError as error:
                errors.add(KubectlError(f"failed to patch: {error.error.message}"))
        elif unchanged:
            printer.print(value, unchanged)
        else:
            errors.add(
                KubectlError(
                    f"failed to create patch for {info.name}: if restart has already been triggered within the past "
                    "second, please wait before attempting to trigger another"
                )
            )
    errors.raise_any()
